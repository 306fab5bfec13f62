//! The table of steps in the repository: what a run is compared with.

use std::fs;

use anyhow::{Context, Result};

use super::step::Step;
use crate::workspace;

/// The table, a line of JSON for each step.
pub const PATH: &str = "xtask/cuda/steps.jsonl";

/// The share by which peaks may differ: when a buffer of some bytes is read last depends on threads.
const PEAK_TOLERANCE: f64 = 0.01;

#[derive(Debug, Default)]
pub struct Table(pub Vec<Step>);

impl Table {
    /// Reads the table of the repository; it is empty if there is none.
    pub fn read() -> Result<Self> {
        let path = workspace::root().join(PATH);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(path).context(PATH)?;
        let lines = text.lines().enumerate();
        let steps = lines.map(|(index, line)| {
            serde_json::from_str(line).with_context(|| format!("{PATH}:{}", index + 1))
        });
        steps.collect::<Result<_>>().map(Self)
    }

    pub fn write(&self) -> Result<()> {
        let mut text = String::new();
        for step in &self.0 {
            text += &serde_json::to_string(step)?;
            text.push('\n');
        }
        fs::write(workspace::root().join(PATH), text).context(PATH)?;
        println!("{PATH} written");
        Ok(())
    }

    /// Puts steps into the table, each in the place of that of the same run.
    pub fn replace(&mut self, steps: Vec<Step>) {
        for step in steps {
            match self.0.iter_mut().find(|old| old.run == step.run) {
                Some(old) => *old = step,
                None => self.0.push(step),
            }
        }
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
