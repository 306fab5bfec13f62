//! What differs between two reports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{Report, units::number};

/// An op at a function of the program whose precision, calls or casts differ between two reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The function, the op and the dtypes.
    pub what: String,
    /// Calls per step in the first report.
    pub before: Option<Count>,
    /// Calls per step in the second report.
    pub after: Option<Count>,
}

/// Calls and casts per step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// Calls per step.
    pub calls: f64,
    /// Casts per step.
    pub casts: f64,
}

/// What differs between two reports, by function, op and dtypes; empty if the same ops ran in the same precision.
pub fn differences(before: &Report, after: &Report) -> Vec<Difference> {
    let [old, new] = [before, after].map(counts);
    let whats: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    whats
        .into_iter()
        .map(|what| Difference {
            what: what.clone(),
            before: old.get(what).copied(),
            after: new.get(what).copied(),
        })
        .filter(|difference| difference.before != difference.after)
        .collect()
}

/// The calls by function, op and dtypes.
pub(super) fn counts(report: &Report) -> BTreeMap<String, Count> {
    let mut counts: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for calls in &report.calls {
        let function = calls.site.as_ref().map_or("?", |site| &site.function);
        let what = format!("{function}  {}  {}", calls.op, calls.dtypes());
        let [count, casts] = counts.entry(what).or_default();
        *count += calls.count;
        *casts += calls.casts.iter().map(|cast| cast.made).sum::<u64>();
    }
    let per_step = |[calls, casts]: [u64; 2]| Count {
        calls: report.per_step(calls),
        casts: report.per_step(casts),
    };
    let counts = counts.into_iter();
    counts
        .map(|(what, count)| (what, per_step(count)))
        .collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match (self.before, self.after) {
            (None, _) => '+',
            (_, None) => '-',
            (Some(_), Some(_)) => '~',
        };
        write!(f, "{sign} {}  ", self.what)?;
        let told = |count: Count| match count.casts {
            0.0 => format!("x{}", number(count.calls)),
            casts => format!("x{}, casts {}", number(count.calls), number(casts)),
        };
        match (self.before, self.after) {
            (Some(before), Some(after)) => write!(f, "{} -> {}", told(before), told(after)),
            (Some(count), None) | (None, Some(count)) => f.write_str(&told(count)),
            (None, None) => Ok(()),
        }
    }
}
