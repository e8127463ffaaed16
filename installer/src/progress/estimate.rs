//! How long a host's work will still take, from the steps' own estimates corrected by how they held so far.

use std::time::Duration;

/// What is known about one host's steps, in milliseconds of their estimates unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Estimates of all planned steps together.
    pub planned: u64,
    /// Estimates of the steps that ended.
    pub ended: u64,
    /// How long the ended steps really took.
    pub ended_took: u64,
    /// Estimate of the step that runs now; 0 where none does.
    pub running: u64,
    /// How long it has been running.
    pub running_for: u64,
}

/// Weight of the estimates against what was measured: as if this much work had gone exactly as estimated before. It
/// keeps the first few short steps from swinging the forecast.
const PRIOR_MS: u64 = 5_000;
/// The pace is never taken for more than this many times slower or faster than estimated.
const MOST: u64 = 5;

impl Work {
    /// The time that is left. A step that is over its time is given a tenth of what it took so far, so that the forecast
    /// neither stands at zero nor jumps.
    pub fn remaining(self) -> Duration {
        let waiting = self.planned.saturating_sub(self.ended).saturating_sub(self.running);
        let left_of_running = if self.running == 0 && self.running_for == 0 {
            0
        } else {
            self.at_pace(self.running).saturating_sub(self.running_for).max(self.running_for / 10)
        };
        Duration::from_millis(self.at_pace(waiting) + left_of_running)
    }

    /// Share of the work that is done, in thousandths.
    pub fn permille(self) -> u64 {
        if self.planned == 0 {
            return 0;
        }
        let part_of_running = self.running_for.min(self.running * 9 / 10);
        ((self.ended + part_of_running) * 1000 / self.planned).min(1000)
    }

    /// Scales an estimate by measured pace.
    fn at_pace(self, estimate: u64) -> u64 {
        let expected = u128::from(self.ended + PRIOR_MS);
        let took = u128::from(self.ended_took + PRIOR_MS);
        let took = took.clamp(expected / u128::from(MOST), expected * u128::from(MOST));
        u64::try_from(u128::from(estimate) * took / expected).unwrap_or(u64::MAX / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(work: Work) -> u64 {
        work.remaining().as_secs()
    }

    #[test]
    fn before_anything_ran_the_estimate_is_the_plan() {
        assert_eq!(secs(Work { planned: 90_000, ..Work::default() }), 90);
    }

    #[test]
    fn a_host_twice_as_slow_as_estimated_is_given_nearly_twice_the_rest() {
        let w = Work { planned: 200_000, ended: 100_000, ended_took: 200_000, ..Work::default() };
        assert_eq!(secs(w), 195);
    }

    #[test]
    fn the_running_step_counts_down() {
        let w = Work { planned: 60_000, running: 60_000, running_for: 20_000, ..Work::default() };
        assert_eq!((secs(w), w.permille()), (40, 333));
    }

    #[test]
    fn an_overdue_step_still_shows_some_time_and_not_all_of_the_bar() {
        let w = Work { planned: 10_000, running: 10_000, running_for: 100_000, ..Work::default() };
        assert_eq!((secs(w), w.permille()), (10, 900));
    }

    #[test]
    fn a_first_step_that_took_ten_times_its_second_does_not_make_an_hour_of_a_minute() {
        let w = Work { planned: 61_000, ended: 1_000, ended_took: 10_000, ..Work::default() };
        assert_eq!(secs(w), 150);
    }

    #[test]
    fn the_end_is_zero_and_full() {
        let w = Work { planned: 10_000, ended: 10_000, ended_took: 9_000, ..Work::default() };
        assert_eq!((secs(w), w.permille()), (0, 1000));
    }

    #[test]
    fn more_ended_than_planned_is_no_underflow() {
        let w = Work { planned: 10, ended: 20, ended_took: 20, running: 5, running_for: 1 };
        assert_eq!((secs(w), w.permille()), (0, 1000));
    }
}
