//! A training step in numbers: a line of `xtask/cuda/steps.jsonl`.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{
    class,
    kernel::{Access, Kernel},
    live,
    log::{Event, Launch},
    plan::Run,
    traffic::{self, Span},
};

/// The counts of one step, the same in every run. Operations of convolutions are not among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    #[serde(flatten)]
    pub run: Run,
    pub launches: u64,
    /// Copies from the host: most are shapes and strides for a launch.
    pub uploads: u64,
    pub upload_bytes: u64,
    /// Copies to the host.
    pub reads: u64,
    /// Waits for all that the device was given, without the one at the step's end.
    pub drains: u64,
    /// Waits for a part of it: CubeCL waits after 64 uploads for those before them.
    pub waits: u64,
    /// Tensors that could not be described for TMA.
    pub refused_descriptors: u64,
    /// Launches whose bytes are not known.
    pub unknown: u64,
    /// The most bytes that are alive, see [`live`].
    pub peak_bytes: u64,
    pub classes: BTreeMap<String, Class>,
}

/// The launches of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    pub launches: u64,
    pub bytes: u64,
    /// Floating-point operations, of products only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flop: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Step {
    /// Counts the first of the marked steps; the second one says what the first leaves behind.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no two steps, or a kernel's source is missing or not understood.
    pub fn count(
        run: Run,
        steps: &[Vec<Event>],
        source: impl Fn(&str) -> Result<String>,
    ) -> Result<Self> {
        let [step, after] = steps else {
            anyhow::bail!("expected two marked steps, found {}", steps.len());
        };
        let mut kernels = Kernels {
            source,
            parsed: HashMap::new(),
        };
        let mut counted = Self {
            run,
            launches: 0,
            uploads: 0,
            upload_bytes: 0,
            reads: 0,
            drains: 0,
            waits: 0,
            refused_descriptors: 0,
            unknown: 0,
            peak_bytes: 0,
            classes: BTreeMap::new(),
        };
        for event in step {
            counted.add(event, &mut kernels)?;
        }
        counted.drains = counted.drains.saturating_sub(1); // the sync that ends the step
        counted.peak_bytes = live::peak(&kernels.lives(step)?, &kernels.lives(after)?);
        Ok(counted)
    }

    /// The launches of the first of the marked steps by kernel, those that move the most bytes first.
    ///
    /// # Errors
    ///
    /// Returns an error if a kernel's source is missing or not understood.
    pub fn kernels(
        steps: &[Vec<Event>],
        source: impl Fn(&str) -> Result<String>,
    ) -> Result<Vec<(String, Class)>> {
        let mut kernels = Kernels {
            source,
            parsed: HashMap::new(),
        };
        let mut by_name: BTreeMap<String, Class> = BTreeMap::new();
        for event in steps.first().context("no marked step")? {
            let Event::Launch(launch) = event else {
                continue;
            };
            let class = by_name.entry(launch.entry.clone()).or_default();
            class.launches += 1;
            let spans = traffic::spans(kernels.get(launch)?, launch).unwrap_or_default();
            class.bytes += traffic::bytes(&launch.entry, &spans);
        }
        let mut kernels: Vec<_> = by_name.into_iter().collect();
        kernels.sort_by_key(|(_, class)| std::cmp::Reverse(class.bytes));
        Ok(kernels)
    }

    fn add<S: Fn(&str) -> Result<String>>(
        &mut self,
        event: &Event,
        kernels: &mut Kernels<S>,
    ) -> Result<()> {
        match event {
            Event::Upload(bytes) => {
                self.uploads += 1;
                self.upload_bytes += bytes;
            }
            Event::Read(_) => self.reads += 1,
            Event::Wait(0) => self.drains += 1,
            Event::Wait(_) => self.waits += 1,
            Event::Descriptor { refused } => self.refused_descriptors += u64::from(*refused),
            Event::Launch(launch) => {
                self.launches += 1;
                let name = class::of(&launch.entry);
                let class = self.classes.entry(name.to_owned()).or_default();
                class.launches += 1;
                let kernel = kernels.get(launch)?;
                match traffic::spans(kernel, launch) {
                    Some(spans) => class.bytes += traffic::bytes(&launch.entry, &spans),
                    None => self.unknown += 1,
                }
                if name == "product" {
                    let flops = traffic::product_flops(kernel, launch);
                    class.flop += flops.unwrap_or(0.0) as u64;
                }
            }
        }
        Ok(())
    }

    /// The bytes of all launches but matrix products and convolutions.
    pub fn bytes_besides_products(&self) -> u64 {
        let classes = self.classes.iter();
        classes
            .filter(|(name, _)| *name != "product")
            .map(|(_, class)| class.bytes)
            .sum()
    }

    pub fn class(&self, name: &str) -> Class {
        self.classes.get(name).copied().unwrap_or_default()
    }
}

/// The kernels of a run, parsed once.
struct Kernels<S> {
    source: S,
    parsed: HashMap<String, Kernel>,
}

impl<S: Fn(&str) -> Result<String>> Kernels<S> {
    fn get(&mut self, launch: &Launch) -> Result<&Kernel> {
        if !self.parsed.contains_key(&launch.hash) {
            let source = (self.source)(&launch.hash)?;
            let kernel = Kernel::parse(&source)
                .with_context(|| format!("{} ({})", launch.entry, launch.hash))?;
            self.parsed.insert(launch.hash.clone(), kernel);
        }
        Ok(&self.parsed[&launch.hash])
    }

    /// The buffers of each launch, as [`live`] needs them.
    fn lives(&mut self, step: &[Event]) -> Result<Vec<Vec<Span>>> {
        let mut lives = Vec::new();
        for event in step {
            let Event::Launch(launch) = event else {
                continue;
            };
            let kernel = self.get(launch)?;
            let mut spans = traffic::spans(kernel, launch).unwrap_or_default();
            // An assignment to a part leaves the rest as it was.
            if ["assign", "scatter"]
                .iter()
                .any(|part| launch.entry.contains(part))
            {
                for span in spans.iter_mut().filter(|span| span.access == Access::Write) {
                    span.access = Access::ReadWrite;
                }
            }
            lives.push(spans);
        }
        Ok(lives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{log, plan::Precision};

    #[test]
    fn a_step_is_counted_from_its_log() {
        const COPY: &str = "struct info_st {\n uint32 static_meta[4];\n};\nextern \"C\" __global__ void __launch_bounds__(256)copy_kernel (\n    const float* __restrict__ buffer_0, float_4* buffer_1, const __grid_constant__ info_st info\n) {\nbuffer_1[0] = buffer_0[0];\n}";
        let launch = "launch 0a copy_kernel 1,1,1 256,1,1 0 1000 2000 [64,19,64,64,]\n";
        let log = format!(
            "start\nupload 8\n{launch}wait 7\nread 4\nwait 0\nwait 0\nstop\nstart\n{launch}stop\n"
        );
        let run = Run {
            model: "mlp".to_owned(),
            size: "tiny".to_owned(),
            precision: Precision::Bf16,
            fusion: false,
        };
        let step = Step::count(run.clone(), &log::steps(&log).unwrap(), |hash| {
            assert_eq!(hash, "0a");
            Ok(COPY.to_owned())
        });
        let class = Class {
            launches: 1,
            bytes: 4 * 100 + 16 * 25,
            flop: 0,
        };
        let expected = Step {
            run,
            launches: 1,
            uploads: 1,
            upload_bytes: 8,
            reads: 1,
            drains: 1,
            waits: 1,
            refused_descriptors: 0,
            unknown: 0,
            peak_bytes: 800,
            classes: BTreeMap::from([("copy".to_owned(), class)]),
        };
        let step = step.unwrap();
        assert_eq!(step, expected);
        let line = serde_json::to_string(&step).unwrap();
        assert_eq!(serde_json::from_str::<Step>(&line).unwrap(), step);
    }
}
