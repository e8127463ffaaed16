//! /etc/fstab: which entries are of a type, and the text with them switched off.

/// What stands before an entry that we switched off. People read it, and `reset` does not need it: the journal has the file.
pub(super) const MARKER: &str = "# switched off by hostspan: ";

/// An entry of the wanted type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its first field: `/swap.img`, `UUID=...`.
    pub spec: String,
    /// The whole line.
    pub line: String,
    /// Whether we switched it off in an earlier run.
    pub off: bool,
}

/// The entries whose third field is `kind`, also those that carry our marker. Comments, and lines that only mention the
/// word elsewhere, are none.
pub(super) fn entries(text: &str, kind: &str) -> Vec<Entry> {
    text.lines()
        .filter_map(|line| {
            let (rest, off) = match line.strip_prefix(MARKER) {
                Some(rest) => (rest, true),
                None => (line, false),
            };
            of_kind(rest, kind).map(|spec| Entry { spec: spec.into(), line: rest.into(), off })
        })
        .collect()
}

/// `text` with every entry of type `kind` commented out; everything else stays byte for byte.
pub(super) fn disable(text: &str, kind: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| if of_kind(line, kind).is_some() { format!("{MARKER}{line}") } else { line.to_owned() })
        .collect()
}

fn of_kind<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    let mut fields = line.split_whitespace();
    let spec = fields.next().filter(|spec| !spec.starts_with('#'))?;
    (fields.nth(1) == Some(kind)).then_some(spec)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The file of clastix/yaki#12, KubeOperator/ansible#6 and kubermatic/kubeone#2540 together.
    const GREEDY: &str = "/swap.img none swap sw 0 0\nUUID=ab-cd /data/swapspace ext4 defaults 0 2\n# old swap note\n\
                          /dev/sdb2\tnone\tswap\n#/dev/sdc none swap sw 0 0\n";

    #[test]
    fn only_the_third_field_decides() {
        assert_eq!(
            disable(GREEDY, "swap"),
            "# switched off by hostspan: /swap.img none swap sw 0 0\nUUID=ab-cd /data/swapspace ext4 defaults 0 2\n\
             # old swap note\n# switched off by hostspan: /dev/sdb2\tnone\tswap\n#/dev/sdc none swap sw 0 0\n"
        );
    }

    #[test]
    fn a_second_run_finds_nothing_to_do_but_still_knows_what_it_switched_off() {
        let once = disable(GREEDY, "swap");
        assert_eq!(disable(&once, "swap"), once);
        let specs: Vec<_> = entries(&once, "swap").into_iter().map(|entry| (entry.spec, entry.off)).collect();
        assert_eq!(specs, [("/swap.img".into(), true), ("/dev/sdb2".into(), true)]);
    }

    #[test]
    fn a_last_line_without_newline_stays_without() {
        assert_eq!(disable("/s none swap sw", "swap"), "# switched off by hostspan: /s none swap sw");
    }

    proptest! {
        #[test]
        fn no_text_panics_or_loses_a_line(text in "[ -~\t\n]{0,200}") {
            let off = disable(&text, "swap");
            prop_assert_eq!(off.lines().count(), text.lines().count());
            prop_assert_eq!(off.replace(MARKER, ""), text.replace(MARKER, ""));
            prop_assert!(entries(&off, "swap").iter().all(|entry| entry.off));
        }
    }
}
