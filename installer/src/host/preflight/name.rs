//! A host's name as the name of its Kubernetes node.

/// Why a name cannot be a node's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No name.
    #[error("it is empty")]
    Empty,
    /// The kubelet makes it the value of the label `kubernetes.io/hostname`, which holds 63 characters.
    #[error("it has {0} characters; a node's name has at most 63")]
    TooLong(usize),
    /// Not a character of a DNS name.
    #[error("it has the character {0:?}; only letters, digits, dashes and dots may be in it")]
    Character(char),
    /// A part that begins or ends with a dash, or has nothing in it.
    #[error("its part {0:?} must begin and end with a letter or a digit")]
    Part(String),
}

/// The name of the node: the host's name in lower case, as RFC 1123 wants it. kubeadm, the kubelet and everything that
/// asks the API server must use this one form, or the kubelet is forbidden to register.
///
/// # Errors
/// [`NameError`] for a name that cannot be one.
pub fn node_name(host: &str) -> Result<String, NameError> {
    let name = host.to_ascii_lowercase();
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    let allowed = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '.';
    if let Some(c) = name.chars().find(|c| !allowed(c)) {
        return Err(NameError::Character(c));
    }
    if name.len() > 63 {
        return Err(NameError::TooLong(name.len()));
    }
    match name.split('.').find(|part| part.is_empty() || part.starts_with('-') || part.ends_with('-')) {
        Some(part) => Err(NameError::Part(part.to_owned())),
        None => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_names() {
        for (host, node) in [
            ("PHost01", Ok("phost01")),
            ("kvm1.lab.example.test", Ok("kvm1.lab.example.test")),
            ("10", Ok("10")),
            ("node_1", Err(NameError::Character('_'))),
            ("-a", Err(NameError::Part("-a".into()))),
            ("a-.b", Err(NameError::Part("a-".into()))),
            ("a..b", Err(NameError::Part(String::new()))),
            ("", Err(NameError::Empty)),
            ("\u{fc}ber", Err(NameError::Character('\u{fc}'))),
        ] {
            assert_eq!(node_name(host), node.map(str::to_owned), "{host}");
        }
        assert_eq!(node_name(&"a".repeat(64)), Err(NameError::TooLong(64)));
        assert_eq!(node_name(&"a".repeat(63)), Ok("a".repeat(63)));
    }
}
