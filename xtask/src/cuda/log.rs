//! The log of the stand-in driver; `xtask/cuda/driver.c` says what its lines mean.

use anyhow::{Context, Result, bail};

/// What a step asked of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Launch(Launch),
    /// Bytes from the host to the device.
    Upload(u64),
    /// Bytes from the device to the host.
    Read(u64),
    /// The host waits for what the device was given before its last launches, as many as this.
    Wait(u64),
    /// A tensor was described for TMA, or could not be.
    Descriptor {
        refused: bool,
    },
}

/// A kernel that was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Names the kernel's source.
    pub hash: String,
    pub entry: String,
    /// The arguments that are pointers.
    pub pointers: Vec<u64>,
    /// The metadata: the last argument, if it is a structure.
    pub words: Vec<u32>,
}

/// The marked steps of a run.
///
/// # Errors
///
/// Returns an error for a line that is not understood, and for what the driver refused.
pub fn steps(log: &str) -> Result<Vec<Vec<Event>>> {
    let mut steps: Vec<Vec<Event>> = Vec::new();
    for (index, line) in log.lines().enumerate() {
        let event = event(line).with_context(|| format!("line {}: {line:.200}", index + 1))?;
        match (event, steps.last_mut()) {
            (Line::Start, _) => steps.push(Vec::new()),
            (Line::Event(event), Some(step)) => step.push(event),
            (Line::Event(_), None) => bail!("line {}: outside a marked step", index + 1),
            (Line::Other, _) => {}
        }
    }
    Ok(steps)
}

enum Line {
    Start,
    Event(Event),
    /// What is not counted.
    Other,
}

fn event(line: &str) -> Result<Line> {
    let mut words = line.split(' ');
    let kind = words.next().unwrap_or_default();
    let mut number = || -> Result<u64> { Ok(words.next().context("no number")?.parse()?) };
    Ok(Line::Event(match kind {
        "start" => return Ok(Line::Start),
        "stop" | "allocate" | "free" | "move" | "fill" => return Ok(Line::Other),
        "upload" => Event::Upload(number()?),
        "read" => Event::Read(number()?),
        "wait" => Event::Wait(number()?),
        "launch" => Event::Launch(launch(line)?),
        "descriptor" => Event::Descriptor {
            refused: line.ends_with("refused"),
        },
        _ => bail!("the driver would not do that"),
    }))
}

/// The name of a kernel without the eight digits that CubeCL 0.11 appends.
fn without_fingerprint(entry: &str) -> &str {
    match entry.rsplit_once('_') {
        Some((name, digits)) if digits.len() == 8 && u32::from_str_radix(digits, 16).is_ok() => {
            name
        }
        _ => entry,
    }
}

fn launch(line: &str) -> Result<Launch> {
    let words: Vec<&str> = line.split(' ').collect();
    let [_, hash, entry, _grid, _block, _shared, arguments @ ..] = words.as_slice() else {
        bail!("expected hash, entry, grid, block and shared memory");
    };
    let mut launch = Launch {
        hash: (*hash).to_owned(),
        entry: without_fingerprint(entry).to_owned(),
        pointers: Vec::new(),
        words: Vec::new(),
    };
    for argument in arguments {
        match argument.strip_prefix('[') {
            None => launch.pointers.push(u64::from_str_radix(argument, 16)?),
            Some(structure) => {
                let words = structure.trim_end_matches([']', ',']).split(',');
                launch.words = words
                    .filter(|word| !word.is_empty())
                    .map(|word| u32::from_str_radix(word, 16))
                    .collect::<Result<_, _>>()?;
            }
        }
    }
    Ok(launch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_what_lies_between_its_marks() {
        let log = "start\nupload 12\nlaunch 0a add 1,1,1 32,1,1 0 7f00 7f10 [4,ff,]\nwait 3\nstop\nstart\ndescriptor tiled refused\nread 4\nstop\n";
        let launch = Launch {
            hash: "0a".to_owned(),
            entry: "add".to_owned(),
            pointers: vec![0x7f00, 0x7f10],
            words: vec![4, 255],
        };
        let expected = [
            vec![Event::Upload(12), Event::Launch(launch), Event::Wait(3)],
            vec![Event::Descriptor { refused: true }, Event::Read(4)],
        ];
        assert_eq!(steps(log).unwrap(), expected);
    }

    #[test]
    fn what_the_driver_refused_is_an_error() {
        let error = steps("start\nrefused launch of add: grid 0,1,1\n").unwrap_err();
        assert!(format!("{error:#}").starts_with("line 2: refused launch of add"));
    }
}
