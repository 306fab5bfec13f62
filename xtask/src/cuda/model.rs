//! The cost model: an estimate of a step's time from its counts and a device's figures.
//!
//! A step is as long as its launches one after the other: each takes the device's time between kernels, and then as long as
//! its bytes at its class's share of the bandwidth; products take as long as their operations at the device's rate. So
//! the model knows neither caches nor launches that overlap, neither what tuning finds nor a host that is too slow. Whether
//! a change is worth its while it can say; what a step takes, only a GPU can.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result};
use toml::de::{DeTable, DeValue};

use super::{
    class,
    plan::{self, Precision},
    step::Step,
};
use crate::workspace;

/// The file with the devices' figures.
pub const DEVICES: &str = "xtask/cuda/devices.toml";

/// A device's figures, as [`DEVICES`] explains them; in bytes, operations and seconds.
#[derive(Debug)]
pub struct Device {
    pub name: String,
    bandwidth: f64,
    launch: f64,
    upload: f64,
    products: Rates,
    convolutions: Rates,
    share: BTreeMap<String, f64>,
}

#[derive(Debug)]
struct Rates {
    f32: f64,
    low: f64,
}

/// Seconds of a step by cause, the longest first.
pub struct Estimate(pub Vec<(&'static str, f64)>);

impl Estimate {
    pub fn seconds(&self) -> f64 {
        self.0.iter().map(|(_, seconds)| seconds).sum()
    }
}

impl Device {
    /// Reads the figures of the device with this key.
    ///
    /// # Errors
    ///
    /// Returns an error that names the figure that is missing.
    pub fn read(key: &str) -> Result<Self> {
        let path = workspace::root().join(DEVICES);
        let text = fs::read_to_string(path).context(DEVICES)?;
        Self::parse(&text, key).context(DEVICES)
    }

    fn parse(text: &str, key: &str) -> Result<Self> {
        let devices = DeTable::parse(text).map_err(|error| anyhow::anyhow!("{error}"))?;
        let device = table(devices.get_ref(), key)?;
        let rates = |name| -> Result<Rates> {
            let rates = table(device, name)?;
            Ok(Rates {
                f32: number(rates, "f32")?,
                low: number(rates, "low")?,
            })
        };
        let shares = table(device, "share")?;
        let share = class::NAMES
            .iter()
            .filter(|name| **name != "product")
            .map(|name| Ok(((*name).to_owned(), number(shares, name)?)))
            .collect::<Result<_>>()?;
        Ok(Self {
            name: get(device, "name")?
                .as_str()
                .context("name: expected text")?
                .to_owned(),
            bandwidth: number(device, "bandwidth")?,
            launch: number(device, "launch")?,
            upload: number(device, "upload")?,
            products: rates("products")?,
            convolutions: rates("convolutions")?,
            share,
        })
    }

    /// Estimates the seconds of a step that has the products of `step`, and beside them so many launches and bytes. All bytes move at
    /// one share of the bandwidth: so programs are compared whose kernels are not known.
    pub fn seconds_at_equal_rates(&self, step: &Step, launches: u64, bytes: u64) -> f64 {
        /// What copies reach.
        const SHARE: f64 = 0.8;
        self.launch * launches as f64
            + self.seconds_of_products(step)
            + bytes as f64 / (self.bandwidth * SHARE)
    }

    fn seconds_of_products(&self, step: &Step) -> f64 {
        let model = plan::FULL
            .iter()
            .find(|model| model.name == step.run.model && step.run.size == "full");
        let convolutions = model.and_then(|model| model.convolution_flop);
        let (rates, flop) = match convolutions {
            Some(flop) => (&self.convolutions, flop),
            None => (&self.products, step.class("product").flop),
        };
        let rate = match step.run.precision {
            Precision::F32 => rates.f32,
            _ => rates.low,
        };
        flop as f64 / rate
    }

    /// Estimates the time of a step.
    pub fn estimate(&self, step: &Step) -> Estimate {
        let mut causes = vec![
            ("launches", self.launch * step.launches as f64),
            ("uploads", self.upload * step.uploads as f64),
            ("product", self.seconds_of_products(step)),
        ];
        for name in class::NAMES {
            if let Some(share) = self.share.get(*name) {
                let bytes = step.class(name).bytes as f64;
                causes.push((name, bytes / (self.bandwidth * share)));
            }
        }
        causes.retain(|(_, seconds)| *seconds > 0.0);
        causes.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        Estimate(causes)
    }
}

fn get<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Result<&'a DeValue<'i>> {
    let value = table
        .get(key)
        .with_context(|| format!("`{key}` is missing"))?;
    Ok(value.get_ref())
}

fn table<'a, 'i>(parent: &'a DeTable<'i>, key: &str) -> Result<&'a DeTable<'i>> {
    get(parent, key)?
        .as_table()
        .with_context(|| format!("{key}: expected a table"))
}

fn number(table: &DeTable, key: &str) -> Result<f64> {
    let value = get(table, key)?
        .as_float()
        .with_context(|| format!("{key}: expected a number such as 1.0"))?;
    let number: f64 = value.as_str().replace('_', "").parse()?;
    anyhow::ensure!(number > 0.0, "{key}: expected a number above 0");
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{plan::Run, step::Class};

    #[test]
    fn the_figures_of_the_repository_are_complete() {
        assert_eq!(Device::read("h200").unwrap().name, "H200 SXM");
        let text = fs::read_to_string(workspace::root().join(DEVICES)).unwrap();
        let error = Device::parse(&text.replace("\"cast\" = 0.33", ""), "h200").unwrap_err();
        assert_eq!(error.to_string(), "`cast` is missing");
    }

    #[test]
    fn an_estimate_is_the_sum_of_its_causes() {
        let device = Device {
            name: "a round one".to_owned(),
            bandwidth: 1e12,
            launch: 1e-6,
            upload: 1e-6,
            products: Rates {
                f32: 1e12,
                low: 2e12,
            },
            convolutions: Rates {
                f32: 1e12,
                low: 2e12,
            },
            share: BTreeMap::from([("cast".to_owned(), 0.5)]),
        };
        let class = |launches, bytes, flop| Class {
            launches,
            bytes,
            flop,
        };
        let step = Step {
            run: Run {
                model: "gpt".to_owned(),
                size: "full".to_owned(),
                precision: Precision::Bf16,
                fusion: false,
            },
            launches: 1000,
            uploads: 500,
            upload_bytes: 0,
            reads: 0,
            drains: 0,
            waits: 0,
            refused_descriptors: 0,
            unknown: 0,
            peak_bytes: 0,
            classes: BTreeMap::from([
                ("product".to_owned(), class(10, 1, 6_000_000_000)),
                ("cast".to_owned(), class(990, 1_000_000_000, 0)),
            ]),
        };
        let estimate = device.estimate(&step);
        let milliseconds: Vec<_> = estimate
            .0
            .iter()
            .map(|(cause, seconds)| (*cause, (seconds * 1e6).round() / 1e3))
            .collect();
        assert_eq!(
            milliseconds,
            [
                ("product", 3.0),
                ("cast", 2.0),
                ("launches", 1.0),
                ("uploads", 0.5)
            ]
        );
        assert!((estimate.seconds() - 6.5e-3).abs() < 1e-9);
    }
}
