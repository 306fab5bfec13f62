//! Runs random programs: `cargo xtask fuzz`.
//!
//! Arguments: the number of programs, the first seed, the number of threads.

use std::{
    env,
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use burn_amp_tests::random::{
    generate::{Limits, program},
    oracle::{Verdict, check},
    print, shrink,
};

fn main() -> ExitCode {
    let mut numbers = env::args().skip(1).map(|word| word.parse::<u64>().expect("a number"));
    let mut number = |usual| numbers.next().unwrap_or(usual);
    let (programs, first, threads, most) = (number(1000), number(0), number(2), number(1));
    let (next, wrong, unfit) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (start, is_done) = (Instant::now(), AtomicBool::new(false));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= programs || wrong.load(Ordering::Relaxed) >= most {
                return;
            }
            let seed = first + number;
            let program = program(seed, Limits::default());
            match check(&program) {
                Verdict::Right => {}
                Verdict::Unfit => drop(unfit.fetch_add(1, Ordering::Relaxed)),
                Verdict::Wrong(failure) => {
                    wrong.fetch_add(1, Ordering::Relaxed);
                    println!("seed {seed}: {failure}");
                    if most > 20 {
                        continue;
                    }
                    let (smallest, failure) = shrink::shrink(&program, &failure);
                    println!("seed {seed}, shrunk: {failure}\n{}", print::rust(&smallest, "program"));
                }
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        scope.spawn(|| {
            let mut said = Instant::now();
            while !is_done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(100));
                if said.elapsed() > Duration::from_secs(5) {
                    said = Instant::now();
                    let done = next.load(Ordering::Relaxed).min(programs);
                    let rate = done as f64 / start.elapsed().as_secs_f64();
                    eprintln!("{done} of {programs} programs, {rate:.0} a second");
                }
            }
        });
        for worker in workers {
            let _ = worker.join();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let (wrong, unfit) = (wrong.into_inner(), unfit.into_inner());
    println!("{programs} programs from seed {first}: {wrong} wrong, {unfit} unfit, {:.0?}", start.elapsed());
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
