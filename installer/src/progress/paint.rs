//! Colour, or none.

use std::io::IsTerminal;

/// When to colour, as the command line says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Colours text or leaves it as it is. One for standard output and one for standard error: either may be a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// For a stream. An explicit choice wins over NO_COLOR, which wins over the terminal.
    pub fn for_stream(choice: Colour, stream: &impl IsTerminal) -> Self {
        Self(decide(choice, std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()), stream.is_terminal()))
    }

    /// No colour.
    pub const fn plain() -> Self {
        Self(false)
    }

    /// Bold.
    pub fn bold(self, text: &str) -> String {
        self.code("1", text)
    }

    /// Of less interest.
    pub fn dim(self, text: &str) -> String {
        self.code("2", text)
    }

    /// Failure, removal.
    pub fn red(self, text: &str) -> String {
        self.code("31", text)
    }

    /// Success, addition.
    pub fn green(self, text: &str) -> String {
        self.code("32", text)
    }

    /// Warning, change.
    pub fn yellow(self, text: &str) -> String {
        self.code("33", text)
    }

    /// A name or a command to type.
    pub fn cyan(self, text: &str) -> String {
        self.code("36", text)
    }

    fn code(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn decide(choice: Colour, no_color: bool, terminal: bool) -> bool {
    match choice {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => terminal && !no_color,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_beats_a_terminal_and_a_flag_beats_no_color() {
        assert!(decide(Colour::Auto, false, true));
        assert!(!decide(Colour::Auto, true, true));
        assert!(!decide(Colour::Auto, false, false));
        assert!(decide(Colour::Always, true, false));
        assert!(!decide(Colour::Never, false, true));
    }

    #[test]
    fn plain_paint_adds_nothing() {
        assert_eq!(Paint::plain().red("x"), "x");
        assert_eq!(Paint(true).red("x"), "\x1b[31mx\x1b[0m");
    }
}
