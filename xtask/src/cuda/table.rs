//! The table of steps in the repository: what a run is compared with.

use anyhow::Result;

use super::{lines, step::Step};

/// The table, a line of JSON for each step.
pub const PATH: &str = "xtask/cuda/steps.jsonl";

/// The share by which peaks may differ: when a buffer of some bytes is read last depends on threads.
const PEAK_TOLERANCE: f64 = 0.01;

#[derive(Debug, Default)]
pub struct Table(pub Vec<Step>);

impl Table {
    /// Reads the table of the repository.
    pub fn read() -> Result<Self> {
        lines::read(PATH).map(Self)
    }

    pub fn write(&self) -> Result<()> {
        lines::write(PATH, &self.0)
    }

    /// Puts steps into the table, each in the place of that of the same run.
    pub fn replace(&mut self, steps: Vec<Step>) {
        lines::replace(&mut self.0, steps, |old, new| old.run == new.run);
    }

    /// Says in what the steps differ from the table's, a line for each number.
    pub fn differences(&self, steps: &[Step]) -> Vec<String> {
        let mut lines = Vec::new();
        for step in steps {
            let Some(old) = self.0.iter().find(|old| old.run == step.run) else {
                lines.push(format!("{}: not in the table", step.run));
                continue;
            };
            for ((name, before), (_, after)) in numbers(old).into_iter().zip(numbers(step)) {
                if before != after {
                    lines.push(format!("{}: {name}: {before} -> {after}", step.run));
                }
            }
            let (before, after) = (old.peak_bytes, step.peak_bytes);
            if before.abs_diff(after) as f64 > PEAK_TOLERANCE * before as f64 {
                lines.push(format!("{}: peak: {before} -> {after} bytes", step.run));
            }
            for name in super::class::NAMES {
                let (before, after) = (old.class(name), step.class(name));
                if before != after {
                    lines.push(format!(
                        "{}: {name}: {} launches, {} bytes -> {} launches, {} bytes",
                        step.run, before.launches, before.bytes, after.launches, after.bytes
                    ));
                }
            }
        }
        lines
    }
}

fn numbers(step: &Step) -> [(&'static str, u64); 8] {
    [
        ("launches", step.launches),
        ("uploads", step.uploads),
        ("bytes of uploads", step.upload_bytes),
        ("reads", step.reads),
        ("waits for everything", step.drains),
        ("waits", step.waits),
        ("refused descriptors", step.refused_descriptors),
        ("launches of unknown bytes", step.unknown),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_added_launch_is_a_difference_and_is_named() {
        let table = Table::read().unwrap();
        let mut step = table.0.first().expect("the table has steps").clone();
        assert!(table.differences(std::slice::from_ref(&step)).is_empty());
        step.launches += 1;
        step.peak_bytes += step.peak_bytes / 200;
        let expected = format!(
            "{}: launches: {} -> {}",
            step.run,
            step.launches - 1,
            step.launches
        );
        assert_eq!(table.differences(std::slice::from_ref(&step)), [expected]);
        step.run.model = "no such model".to_owned();
        assert!(table.differences(&[step])[0].ends_with("not in the table"));
    }
}
