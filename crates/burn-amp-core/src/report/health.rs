//! The health of a run over its steps, as small pictures: one for each parameter.

use std::{collections::BTreeMap, fmt::Write as _};

use super::Report;
use crate::health::{Look, ParameterHealth};

/// The number of parameters with a picture.
const SHOWN: usize = 24;

/// The size of a picture.
const SIZE: (f64, f64) = (220.0, 56.0);

/// The shares of a parameter at one step: zeros of the gradient, those that lost bits, those near the limit, and updates that
/// were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shares {
    pub(super) zero: f64,
    pub(super) subnormal: f64,
    pub(super) near_limit: f64,
    pub(super) lost: f64,
}

impl Shares {
    fn of(parameter: &ParameterHealth) -> Self {
        let share = |count: u64, of: u64| match of {
            0 => 0.0,
            of => count as f64 / of as f64,
        };
        let gradient = &parameter.gradient;
        Self {
            zero: share(gradient.zero, gradient.elements),
            subnormal: share(gradient.subnormal, gradient.elements),
            near_limit: share(gradient.near_limit + gradient.not_finite, gradient.elements),
            lost: share(parameter.update.lost, parameter.update.due),
        }
    }

    /// How much there is to see.
    fn worst(&self) -> f64 {
        let Self {
            zero,
            subnormal,
            near_limit,
            lost,
        } = *self;
        zero.max(subnormal).max(near_limit).max(lost)
    }
}

/// The shares of each parameter by step, those with most to see first.
pub(super) fn series(looks: &[Look]) -> Vec<(&str, Vec<(u64, Shares)>)> {
    // Parameters of two models may have one name.
    let mut series: BTreeMap<(&str, u64), Vec<(u64, Shares)>> = BTreeMap::new();
    for look in looks {
        for parameter in &look.parameters {
            let shares = (look.step, Shares::of(parameter));
            let of_parameter = series.entry((&parameter.name, parameter.id));
            of_parameter.or_default().push(shares);
        }
    }
    let series = series.into_iter();
    let mut series: Vec<_> = series.map(|((name, _), steps)| (name, steps)).collect();
    let worst = |steps: &[(u64, Shares)]| steps.iter().map(|(_, x)| x.worst()).fold(0.0, f64::max);
    series.sort_by(|(_, a), (_, b)| worst(b).total_cmp(&worst(a)));
    series
}

/// The pictures; empty without looks.
pub(super) fn pictures(report: &Report, escaped: impl Fn(&str) -> String) -> String {
    let series = series(&report.health);
    let steps = || report.health.iter().map(|look| look.step);
    let Some((first, last)) = steps().min().zip(steps().max()) else {
        return String::new();
    };
    let mut page = format!(
        "<h2>Health over the steps</h2>\n<p>Of each parameter, from step {} to step {}: \
         <span class=\"lost\">updates that were lost</span>, <span class=\"zero\">zeros of the gradient</span>, and \
         <span class=\"ends\">its elements at an end of the range of {}</span>, from 0 to 100 %.</p>\n<div class=\"pictures\">\n",
        first, last, report.compute,
    );
    for (name, steps) in series.iter().take(SHOWN) {
        let _ = write!(
            page,
            "<figure><svg viewBox=\"-2 -4 {} {}\" role=\"img\"><title>{}</title>\n\
             <path class=\"frame\" d=\"M0 0V{}H{}\"/>\n",
            SIZE.0 + 4.0,
            SIZE.1 + 8.0,
            escaped(name),
            SIZE.1,
            SIZE.0,
        );
        for class in ["zero", "ends", "lost"] {
            let share = |shares: &Shares| match class {
                "zero" => shares.zero,
                "ends" => shares.subnormal + shares.near_limit,
                _ => shares.lost,
            };
            let points = steps.iter().map(|(step, shares)| (*step, share(shares)));
            let points = points_of(points, first, last);
            let _ = writeln!(page, "<polyline class=\"{class}\" points=\"{points}\"/>");
        }
        let shares = steps
            .last()
            .map_or(Shares::default(), |(_, shares)| *shares);
        let _ = writeln!(
            page,
            "</svg><figcaption>{}<br>{:.0} % lost, {:.0} % zero</figcaption></figure>",
            escaped(name),
            100.0 * shares.lost,
            100.0 * shares.zero,
        );
    }
    page.push_str("</div>\n");
    if series.len() > SHOWN {
        let _ = writeln!(
            page,
            "<p>{} more parameters have less to see.</p>",
            series.len() - SHOWN
        );
    }
    page
}

/// The points of a line, from the first step to the last.
fn points_of(points: impl Iterator<Item = (u64, f64)>, first: u64, last: u64) -> String {
    let (width, height) = SIZE;
    let length = last.saturating_sub(first).max(1) as f64;
    let points: Vec<_> = points
        .map(|(step, share)| {
            let x = (step - first) as f64 / length * width;
            format!("{x:.1},{:.1}", (1.0 - share) * height)
        })
        .collect();
    match &points[..] {
        // A line has two ends.
        [only] => format!("{only} {only}"),
        _ => points.join(" "),
    }
}
