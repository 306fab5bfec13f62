//! Runs random programs: `cargo xtask fuzz`.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use burn_amp_tests::random::{
    alike::check_alike,
    generate::program,
    limits::Limits,
    oracle::{Verdict, check},
    print,
    shrink::shrink,
};

/// The arguments, all of them numbers, as `cargo xtask fuzz` passes them.
struct Arguments {
    programs: u64,
    seed: u64,
    threads: u64,
    /// The wrong programs after which the run ends.
    most: u64,
    /// Whether wrong programs are shrunk and printed.
    shrinks: bool,
    /// Whether the calls of a pass are compared one by one instead.
    alike: bool,
}

impl Arguments {
    fn read() -> Option<Self> {
        let words: Result<Vec<u64>, _> =
            std::env::args().skip(1).map(|word| word.parse()).collect();
        let [programs, seed, threads, most, shrinks, alike] = words.ok()?.try_into().ok()?;
        Some(Self {
            programs,
            seed,
            threads,
            most,
            shrinks: shrinks != 0,
            alike: alike != 0,
        })
    }
}

/// What has been found so far.
#[derive(Default)]
struct Found {
    next: AtomicU64,
    wrong: AtomicU64,
    unfit: AtomicU64,
    is_done: AtomicBool,
}

fn main() -> ExitCode {
    let Some(arguments) = Arguments::read() else {
        eprintln!(
            "error: run `cargo xtask fuzz`, which passes six numbers: programs, seed, threads, most, shrinks, alike"
        );
        return ExitCode::from(2);
    };
    let (found, start) = (Found::default(), Instant::now());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.threads)
            .map(|_| scope.spawn(|| work(&arguments, &found)))
            .collect();
        scope.spawn(|| tell(&arguments, &found, start));
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        found.is_done.store(true, Ordering::Relaxed);
        results
            .into_iter()
            .for_each(|result| result.expect("the harness itself does not panic"));
    });
    let programs = found.next.into_inner().min(arguments.programs);
    let (wrong, unfit) = (found.wrong.into_inner(), found.unfit.into_inner());
    println!(
        "{programs} programs from seed {}: {wrong} wrong, {unfit} out of range, {:.0?}",
        arguments.seed,
        start.elapsed()
    );
    if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Checks programs until all are checked.
fn work(arguments: &Arguments, found: &Found) {
    let check = if arguments.alike { check_alike } else { check };
    while found.wrong.load(Ordering::Relaxed) < arguments.most {
        let number = found.next.fetch_add(1, Ordering::Relaxed);
        if number >= arguments.programs {
            return;
        }
        let seed = arguments.seed + number;
        let program = program(seed, Limits::default());
        match check(&program) {
            Verdict::Right => {}
            Verdict::Unfit => drop(found.unfit.fetch_add(1, Ordering::Relaxed)),
            Verdict::Wrong(failure) => {
                found.wrong.fetch_add(1, Ordering::Relaxed);
                println!("seed {seed}: {failure}");
                if arguments.shrinks {
                    let (smallest, failure) = shrink(&program, &failure, check);
                    println!(
                        "seed {seed}, shrunk: {failure}\n{}",
                        print::rust(&smallest, "program")
                    );
                }
            }
        }
    }
}

/// Says every few seconds how far the run is.
fn tell(arguments: &Arguments, found: &Found, start: Instant) {
    let mut said = Instant::now();
    while !found.is_done.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(100));
        if said.elapsed() > Duration::from_secs(5) {
            said = Instant::now();
            let done = found.next.load(Ordering::Relaxed).min(arguments.programs);
            let wrong = found.wrong.load(Ordering::Relaxed);
            let rate = done as f64 / start.elapsed().as_secs_f64();
            eprintln!(
                "{done} of {} programs, {wrong} wrong, {rate:.0} a second",
                arguments.programs
            );
        }
    }
}
