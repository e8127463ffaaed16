//! Exit codes: one enum, so that scripts can tell a user's mistake from a host's failure from our bug.

/// What the process ends with. The numbers are public and never change; `docs/src/reference/exit-codes.md` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// A bug in hostspan.
    Bug = 1,
    /// Changes are pending; only from `plan --exit-code`, as terraform has it.
    ChangesPending = 2,
    /// The fleet file or a playbook is wrong.
    FleetFile = 10,
    /// Preflight found something that blocks.
    PreflightBlocked = 11,
    /// A host could not be reached, or its host key was not the recorded one.
    Unreachable = 12,
    /// A step failed on a host.
    StepFailed = 13,
    /// A change was made and rolled back.
    RolledBack = 14,
    /// Wrong usage of the command line.
    Usage = 64,
    /// Stopped by Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// The number for the operating system.
    pub fn code(self) -> u8 {
        self as u8
    }
}
