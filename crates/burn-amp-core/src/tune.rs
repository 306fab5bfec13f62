//! The tuner: proposes an `amp.toml` from a shadow comparison and a precision report.

use std::{collections::BTreeMap, fmt};

use crate::{Class, Op, Precision, report::Report, shadow::ShadowReport};

/// What an `amp.toml` should say about ops whose errors are too large, and why.
///
/// ```
/// use burn_amp_core::{Class, Config, Op, Precision, report::{Calls, Report, Why}, shadow::ShadowReport, tune::tuned};
/// use std::path::Path;
///
/// let mut shadow = ShadowReport::default();
/// shadow.add("linear", None, Precision::BF16, 2e-3);
/// shadow.add("float_sin", None, Precision::BF16, 0.2);
/// let mut report = Report::new("flex", "o1", Precision::BF16);
/// let calls = |op, bytes, flops| Calls { count: 1, bytes, flops, ..Calls::new(op, vec![], Precision::BF16, Why::Operands) };
/// report.calls = vec![calls("linear", 1_000_000, 500_000_000), calls("float_sin", 1_000, 0)];
///
/// let file = tuned(&shadow, &report, 0.01).to_string();
/// let config = Config::from_toml(&file, Path::new("amp.toml"))?;
/// assert_eq!(config.ops, [(Op::float_sin, Class::Full)].into());
/// # Ok::<(), burn_amp_core::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// The dtype of ops of class `low` in the report.
    pub compute: Precision,
    /// The error above which an op is looked at.
    pub tolerance: f64,
    /// The ops whose errors are above the tolerance, by name.
    pub ops: BTreeMap<Op, Proposal>,
}

/// What is proposed for an op whose error is above the tolerance.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Its largest error.
    pub worst: f64,
    /// The place with that error.
    pub place: String,
    /// How many bytes more a step moves if the op runs in F32, as a share of all bytes.
    pub more_bytes: f64,
    /// The share of the floating-point operations of products that are the op's.
    pub flops: f64,
}

impl Proposal {
    /// The class to give the op; `None` if the step would take longer than now.
    ///
    /// A step that moves 1 % more bytes takes at most 1 % longer, which is what timings differ by. Products in F32 take a
    /// multiple of the time, whatever they move.
    pub fn class(&self) -> Option<Class> {
        const NOTHING: f64 = 0.01;

        (self.flops == 0.0 && self.more_bytes <= NOTHING).then_some(Class::Full)
    }
}

/// Proposes classes for the ops whose errors in a shadow comparison are above a tolerance, by what a report of the same
/// steps says they cost.
pub fn tuned(shadow: &ShadowReport, report: &Report, tolerance: f64) -> Tuned {
    let totals = report.totals();
    let all_bytes: u64 = totals.ops.values().map(|op| op.bytes).sum();
    let share = |part: u64, all: u64| match all {
        0 => 0.0,
        all => part as f64 / all as f64,
    };
    // What an op in half precision moves: in F32 its operands are read, written and read again, in 2, 4 and 4 bytes where
    // they were read in 2, and its result takes twice the bytes.
    let more_bytes = |name: &str| {
        let calls = report.calls.iter();
        let low = calls.filter(|calls| calls.op == name && calls.computed_in.is_low());
        4 * low.map(|calls| calls.bytes).sum::<u64>()
    };
    let mut ops = BTreeMap::new();
    for shadowed in &shadow.ops {
        let Some(op) = shadowed.op.parse::<Op>().ok() else {
            continue;
        };
        let is_known = ops
            .get(&op)
            .is_some_and(|known: &Proposal| known.worst >= shadowed.worst);
        if shadowed.worst <= tolerance || is_known || op.class(report.compute).is_none() {
            continue;
        }
        let flops = totals.ops.get(op.name()).map_or(0, |op| op.flops);
        let proposal = Proposal {
            worst: shadowed.worst,
            place: shadowed
                .site
                .as_ref()
                .map_or("?".into(), |site| site.to_string()),
            more_bytes: share(more_bytes(op.name()), all_bytes),
            flops: share(flops, totals.flops),
        };
        ops.insert(op, proposal);
    }
    Tuned {
        compute: report.compute,
        tolerance,
        ops,
    }
}

impl fmt::Display for Tuned {
    /// Writes an `amp.toml` in which each deviation from the defaults has its reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            compute,
            tolerance,
            ops,
        } = self;
        writeln!(
            f,
            "# Proposed by `burn-amp tune` for errors of at most {tolerance}."
        )?;
        writeln!(f, "compute = \"{compute}\"\n\n[ops]")?;
        let percent = |share: f64| (share * 1e4).round() / 100.0;
        for (op, proposal) in ops {
            let Some(class) = proposal.class() else {
                continue;
            };
            let Proposal {
                worst,
                place,
                more_bytes,
                ..
            } = proposal;
            writeln!(
                f,
                "# An error of {worst:.1e} at {place}. In f32 a step moves {} % more bytes.",
                percent(*more_bytes)
            )?;
            writeln!(f, "{op} = \"{class}\"")?;
        }
        let mut kept = ops
            .iter()
            .filter(|(_, proposal)| proposal.class().is_none())
            .peekable();
        if kept.peek().is_some() {
            writeln!(
                f,
                "\n# Above the tolerance too, and left as they are, because a step would take longer:"
            )?;
        }
        for (op, proposal) in kept {
            let Proposal {
                worst,
                place,
                more_bytes,
                flops,
            } = proposal;
            write!(f, "# {op}: an error of {worst:.1e} at {place}; ")?;
            match *flops > 0.0 {
                true => writeln!(
                    f,
                    "it makes {} % of the products of numbers",
                    percent(*flops)
                )?,
                false => writeln!(
                    f,
                    "in f32 a step moves {} % more bytes",
                    percent(*more_bytes)
                )?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        Config,
        report::{Calls, Site, Why},
    };

    fn file(tolerance: f64) -> String {
        let site = |line| {
            Some(Site {
                file: "src/model.rs".into(),
                line,
                function: "model::forward".into(),
            })
        };
        let mut shadow = ShadowReport::default();
        shadow.add("linear", site(1), Precision::F16, 0.02);
        shadow.add("float_sin", site(2), Precision::F16, 0.3);
        shadow.add("float_sin", site(3), Precision::F16, 0.4);
        shadow.add("float_abs", site(4), Precision::F16, 0.02);
        shadow.add("custom", site(5), Precision::F16, 0.5);
        let calls = |op, bytes, flops| Calls {
            count: 1,
            bytes,
            flops,
            ..Calls::new(op, vec![Precision::F16], Precision::F16, Why::Operands)
        };
        let mut report = Report::new("flex", "o1", Precision::F16);
        report.calls = vec![
            calls("linear", 80_000, 1_000_000),
            calls("float_sin", 200, 0),
            calls("float_abs", 19_800, 0),
        ];
        tuned(&shadow, &report, tolerance).to_string()
    }

    #[test]
    fn ops_that_cost_little_are_run_in_f32_and_the_others_are_named() {
        let text = file(0.01);
        assert_eq!(
            text,
            "\
# Proposed by `burn-amp tune` for errors of at most 0.01.
compute = \"f16\"

[ops]
# An error of 4.0e-1 at src/model.rs:3. In f32 a step moves 0.8 % more bytes.
float_sin = \"full\"

# Above the tolerance too, and left as they are, because a step would take longer:
# float_abs: an error of 2.0e-2 at src/model.rs:4; in f32 a step moves 79.2 % more bytes
# linear: an error of 2.0e-2 at src/model.rs:1; it makes 100 % of the products of numbers
"
        );
        let config = Config::from_toml(&text, Path::new("amp.toml")).unwrap();
        assert_eq!(config.ops, [(Op::float_sin, Class::Full)].into());
    }

    #[test]
    fn below_the_tolerance_nothing_is_changed() {
        let config = Config::from_toml(&file(0.9), Path::new("amp.toml")).unwrap();
        assert!(config.ops.is_empty());
    }
}
