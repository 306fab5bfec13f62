//! Steps as tables for people: on the terminal, and as a page of the book.

use std::fmt::Write as _;

use anyhow::Result;

use super::{
    class,
    host::Host,
    model::Device,
    peer::Peer,
    plan::Precision,
    step::{Class, Step},
};

/// The device whose times are estimated.
const DEVICE: &str = "h200";

const HEADER: &[&str] = &[
    "model",
    "precision",
    "launches",
    "uploads",
    "waits",
    "drains",
    "reads",
    "casts",
    "casts, GB",
    "GB besides products",
    "over f32",
    "peak, MiB",
    "over f32",
    "ms by the model",
    "f32 over it",
    "mostly",
];

/// The steps, each beside the same in plain Burn if that is among them.
pub fn steps(steps: &[Step]) -> Result<String> {
    let device = Device::read(DEVICE)?;
    let mut rows = vec![HEADER.iter().map(|cell| (*cell).to_owned()).collect()];
    rows.extend(steps.iter().map(|step| {
        let plain = steps.iter().find(|other| other.run == step.run.in_f32());
        row(step, plain, &device)
    }));
    Ok(format!(
        "{}\nTimes are a model's, for an {}: nothing was measured.\n",
        markdown(&rows),
        device.name
    ))
}

const BESIDE: &[&str] = &[
    "model",
    "PyTorch's attention",
    "launches: Burn f32",
    "Amp bf16",
    "PyTorch TF32",
    "PyTorch AMP",
    "GB besides products: Burn f32",
    "Amp bf16",
    "PyTorch TF32",
    "PyTorch AMP",
    "Amp over PyTorch AMP",
    "ms at equal rates: Amp bf16",
    "PyTorch AMP",
    "Amp over PyTorch AMP",
];

/// The first kernels of a step.
pub fn kernels(kernels: &[(String, Class)], count: usize) -> String {
    let header = ["kernel", "class", "launches", "GB"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(kernels.iter().take(count).map(|(name, class)| {
        vec![
            name.clone(),
            class::of(name).to_owned(),
            class.launches.to_string(),
            gigabytes(class.bytes),
        ]
    }));
    markdown(&rows)
}

/// The steps under Fusion in F32 and BF16, beside the same in PyTorch.
///
/// # Errors
///
/// Returns an error if the figures of the device cannot be read.
pub fn beside_pytorch(steps: &[Step], peers: &[Peer]) -> Result<String> {
    let device = Device::read(DEVICE)?;
    let mut rows = vec![BESIDE.iter().map(|cell| (*cell).to_owned()).collect()];
    let peers_of =
        |precision: &'static str| peers.iter().filter(move |peer| peer.precision == precision);
    for amp in peers_of("amp-bf16") {
        let step = |precision| {
            steps.iter().find(|step| {
                let run = &step.run;
                run.model == amp.model && run.precision == precision && run.fusion
            })
        };
        let tf32 = peers_of("tf32").find(|peer| peer.model == amp.model);
        let (Some(plain), Some(low), Some(tf32)) =
            (step(Precision::F32), step(Precision::Bf16), tf32)
        else {
            continue;
        };
        let bytes = [
            plain.bytes_besides_products(),
            low.bytes_besides_products(),
            tf32.bytes_besides_products,
            amp.bytes_besides_products,
        ];
        let mut row = vec![
            amp.model.clone(),
            if amp.sdpa { "fused" } else { "" }.to_owned(),
        ];
        let launches = [plain.launches, low.launches, tf32.launches, amp.launches];
        row.extend(launches.map(|number| number.to_string()));
        row.extend(bytes.map(gigabytes));
        row.push(format!("{:.2}", bytes[1] as f64 / bytes[3] as f64));
        let seconds = |of: usize| device.seconds_at_equal_rates(low, launches[of], bytes[of]);
        row.extend([1, 3].map(|of| format!("{:.1}", seconds(of) * 1e3)));
        row.push(format!("{:.2}", seconds(1) / seconds(3)));
        rows.push(row);
    }
    Ok(markdown(&rows))
}

const HOST: &[&str] = &[
    "model",
    "precision",
    "program, ms",
    "Fusion, ms",
    "CubeCL, ms",
    "busiest over f32",
    "launches",
    "µs of all per launch",
    "over f32",
    "device, ms by the model",
    "longer",
];

/// The CPU time of the threads of steps, each beside the same in plain Burn if that is among them, and beside the device.
pub fn hosts(hosts: &[Host], steps: &[Step]) -> Result<String> {
    let device = Device::read(DEVICE)?;
    let mut rows = vec![HOST.iter().map(|cell| (*cell).to_owned()).collect()];
    let mut processors: Vec<&str> = Vec::new();
    let step_of = |host: &Host| steps.iter().find(|step| step.run == host.run);
    for host in hosts {
        let Some(step) = step_of(host) else {
            continue;
        };
        if !processors.contains(&host.cpu.as_str()) {
            processors.push(&host.cpu);
        }
        let plain = hosts.iter().find(|other| other.run == host.run.in_f32());
        let plain = plain.and_then(|plain| Some((plain, step_of(plain)?)));
        let per_launch = |host: &Host, step: &Step| host.total() / step.launches as f64;
        let over = |number: &dyn Fn(&Host, &Step) -> f64| match plain {
            Some((plain, of_plain)) => {
                format!("{:.2}", number(host, step) / number(plain, of_plain))
            }
            None => "-".to_owned(),
        };
        let on_device = device.estimate(step).seconds() * 1e3;
        let milliseconds = |time: f64| format!("{:.1}", time / 1e3);
        let fusion = if host.run.fusion { ", Fusion" } else { "" };
        rows.push(vec![
            host.run.model.clone(),
            format!("{}{fusion}", host.run.precision.name()),
            milliseconds(host.program_us),
            milliseconds(host.fusion_us),
            milliseconds(host.cubecl_us),
            over(&|host, _| host.busiest()),
            step.launches.to_string(),
            format!("{:.1}", per_launch(host, step)),
            over(&per_launch),
            format!("{on_device:.1}"),
            match host.busiest() / 1e3 > on_device {
                true => "host",
                false => "device",
            }
            .to_owned(),
        ]);
    }
    Ok(format!(
        "{}\nProcessor: {}. Times of the device are the model's.\n",
        markdown(&rows),
        processors.join("; ")
    ))
}

fn row(step: &Step, plain: Option<&Step>, device: &Device) -> Vec<String> {
    let over = |number: &dyn Fn(&Step) -> f64| match plain {
        Some(plain) => format!("{:.2}", number(step) / number(plain)),
        None => "-".to_owned(),
    };
    let estimate = device.estimate(step);
    let seconds = |step: &Step| device.estimate(step).seconds();
    let causes: Vec<String> = estimate
        .0
        .iter()
        .take(4)
        .map(|(cause, seconds)| format!("{cause} {:.1}", seconds * 1e3))
        .collect();
    let fusion = if step.run.fusion { ", Fusion" } else { "" };
    let casts = step.class("cast");
    vec![
        step.run.model.clone(),
        format!("{}{fusion}", step.run.precision.name()),
        step.launches.to_string(),
        step.uploads.to_string(),
        step.waits.to_string(),
        step.drains.to_string(),
        step.reads.to_string(),
        casts.launches.to_string(),
        gigabytes(casts.bytes),
        gigabytes(step.bytes_besides_products()),
        over(&|step| step.bytes_besides_products() as f64),
        format!("{:.0}", step.peak_bytes as f64 / f64::from(1 << 20)),
        over(&|step| step.peak_bytes as f64),
        format!("{:.1}", estimate.seconds() * 1e3),
        match plain {
            Some(plain) => format!("{:.2}", seconds(plain) / estimate.seconds()),
            None => "-".to_owned(),
        },
        causes.join(", "),
    ]
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e9)
}

/// A table in markdown; the first row is the header. A column stands right if all its cells are numbers.
fn markdown(rows: &[Vec<String>]) -> String {
    let is_number = |column: usize| {
        let mut cells = rows[1..].iter().map(|row| row[column].as_str());
        column > 1 && cells.all(|cell| cell == "-" || cell.parse::<f64>().is_ok())
    };
    let columns = rows[0].len();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(2)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = match is_number(column) {
                true => write!(text, "| {cell:>width$} "),
                false => write!(text, "| {cell:<width$} "),
            };
        }
        text += "|\n";
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                let end = if is_number(column) { ":" } else { "-" };
                let _ = write!(text, "| {end:->width$} ");
            }
            text += "|\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right() {
        let rows = [["m", "p", "launches", "mostly"], ["gpt", "f32", "12", "x"]]
            .map(|row| row.map(str::to_owned).to_vec());
        let expected = "\
| m   | p   | launches | mostly |
| --- | --- | -------: | ------ |
| gpt | f32 |       12 | x      |
";
        assert_eq!(markdown(&rows), expected);
    }
}
