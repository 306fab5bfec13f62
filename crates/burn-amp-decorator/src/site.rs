//! The line of the program that called an op: the innermost frame of the stack that is not of a library.

use std::{
    cell::RefCell,
    collections::HashMap,
    env,
    path::Path,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use backtrace::{Frame, Symbol};
use burn_amp_core::report::Site;
use parking_lot::RwLock;

/// Folders in whose files are libraries: those that cargo downloads, and Rust's own.
const LIBRARIES: [&str; 4] = ["/registry/src/", "/git/checkouts/", "/rustc/", "/rustlib/"];

/// Crates that are no part of the program, wherever their files are. A program without line tables knows no files, so
/// Burn's crates are here too.
const CRATES: [&str; 35] = [
    "alloc",
    "backtrace",
    "burn",
    "burn_amp",
    "burn_amp_core",
    "burn_amp_decorator",
    "burn_amp_engine",
    "burn_amp_kernels",
    "burn_autodiff",
    "burn_backend",
    "burn_collective",
    "burn_core",
    "burn_cubecl",
    "burn_cuda",
    "burn_derive",
    "burn_dispatch",
    "burn_flex",
    "burn_fusion",
    "burn_ir",
    "burn_linalg",
    "burn_ndarray",
    "burn_nn",
    "burn_optim",
    "burn_rl",
    "burn_router",
    "burn_signal",
    "burn_std",
    "burn_store",
    "burn_tch",
    "burn_tensor",
    "burn_train",
    "burn_vision",
    "burn_wgpu",
    "core",
    "std",
];

/// Parts of the paths of files that [`treat_as_library`] was called with.
static OWN_LIBRARIES: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Their number.
static OWN_LIBRARY_COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The frames that were looked up before: looking up takes much longer than walking the stack.
    static KNOWN: RefCell<Known> = RefCell::default();

    /// The place of a call that is run again.
    static RECORDED: RefCell<Option<Option<Site>>> = const { RefCell::new(None) };
}

/// The places of frames by their addresses, as long as the number of a program's own libraries is this one.
#[derive(Default)]
struct Known {
    own_libraries: usize,
    sites: HashMap<usize, Option<Site>>,
}

/// Makes reports name the lines that call code in files whose path contains `part`, instead of lines in these files.
///
/// Crates that cargo downloads are known as libraries. A library of the program's own workspace is not: a crate of layers,
/// or a backend that decorates another.
///
/// ```
/// burn_amp::diagnose::treat_as_library("crates/layers/");
/// ```
pub fn treat_as_library(part: impl Into<String>) {
    let mut parts = OWN_LIBRARIES.write();
    parts.push(part.into());
    OWN_LIBRARY_COUNT.store(parts.len(), Ordering::Release);
}

/// Returns the place in the program that is being executed; `None` if the stack has no frame of the program.
///
/// Without line tables (`debug = "line-tables-only"` in the profile) the line is 0, and only the function is known.
pub(crate) fn here() -> Option<Site> {
    if let Some(recorded) = RECORDED.with_borrow(Clone::clone) {
        return recorded;
    }
    let mut found = None;
    backtrace::trace(|frame| {
        found = of_program(frame);
        found.is_none()
    });
    found
}

/// Runs a call again whose place is known.
pub(crate) fn at<T>(site: Option<Site>, call: impl FnOnce() -> T) -> T {
    RECORDED.set(Some(site));
    scopeguard::defer!(RECORDED.set(None));
    call()
}

/// The place of a frame, if it is one of the program.
fn of_program(frame: &Frame) -> Option<Site> {
    let address = frame.ip().addr();
    let known = KNOWN.with_borrow_mut(|known| {
        let own_libraries = OWN_LIBRARY_COUNT.load(Ordering::Acquire);
        if known.own_libraries != own_libraries {
            *known = Known {
                own_libraries,
                ..Known::default()
            };
        }
        known.sites.get(&address).cloned()
    });
    if let Some(known) = known {
        return known;
    }
    let mut site = None;
    // A frame has several symbols if functions were inlined; the innermost comes first.
    backtrace::resolve_frame(frame, |symbol| {
        if site.is_none() {
            site = of_symbol(symbol);
        }
    });
    KNOWN.with_borrow_mut(|known| known.sites.insert(address, site.clone()));
    site
}

fn of_symbol(symbol: &Symbol) -> Option<Site> {
    let name = format!("{:#}", symbol.name()?);
    let name = function(&name);
    let Some(file) = symbol.filename() else {
        // The functions of other languages have no path.
        let (krate, _) = name.split_once("::")?;
        return (!CRATES.contains(&krate)).then_some(Site {
            file: String::new(),
            line: 0,
            function: name,
        });
    };
    let path = file.display().to_string();
    let krate = name.split_once("::").map(|(krate, _)| krate);
    if is_library(&path) || is_derived(&name) || krate.is_some_and(|krate| CRATES.contains(&krate))
    {
        return None;
    }
    Some(Site {
        line: symbol.lineno().unwrap_or(0),
        // Line tables alone have names without paths, and a report should not depend on the profile.
        function: match name.rsplit("::").next() {
            None | Some("") => module(file),
            Some(name) => format!("{}::{name}", module(file)),
        },
        file: shortened(&path),
    })
}

/// Whether a function is one that `#[derive(Module)]` writes, through which an optimizer and a visitor reach the
/// parameters. The program calls them further out.
fn is_derived(function: &str) -> bool {
    matches!(function.rsplit("::").next(), Some("map" | "visit"))
}

/// Whether a file is of a library: of one that cargo downloads, of Rust's own, or of burn-amp.
fn is_library(path: &str) -> bool {
    /// The sources of burn-amp in a checkout.
    const BURN_AMP: [&str; 4] = [
        "/crates/burn-amp/src/",
        "/crates/burn-amp-core/src/",
        "/crates/burn-amp-decorator/src/",
        "/crates/burn-amp-kernels/src/",
    ];

    BURN_AMP.iter().any(|sources| path.contains(sources))
        || LIBRARIES.iter().any(|folder| path.contains(folder))
        || OWN_LIBRARIES.read().iter().any(|part| path.contains(part))
}

/// The module of a file, by its name: `src/model.rs` and `src/model/mod.rs` are `model`.
fn module(file: &Path) -> String {
    let stem = |path: &Path| {
        path.file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
    };
    match stem(file) {
        Some(name) if name == "mod" => file.parent().and_then(stem).unwrap_or(name),
        name => name.unwrap_or_default(),
    }
}

/// The path of a file below the working directory.
fn shortened(file: &str) -> String {
    static HERE: LazyLock<String> = LazyLock::new(|| {
        let here = env::current_dir().map(|here| here.display().to_string());
        here.unwrap_or_default() + "/"
    });
    file.strip_prefix(&*HERE).unwrap_or(file).to_owned()
}

/// The path of a function without generics and closures: `<a::Model<B> as a::Forward>::forward::{{closure}}` is
/// `a::Model::forward`.
fn function(symbol: &str) -> String {
    // `<Type as Trait>::method` and `<Type>::method`
    let path = match symbol.strip_prefix('<').and_then(closed) {
        Some((of, rest)) => {
            let of = of.split(" as ").next().unwrap_or(of);
            format!("{}{rest}", of.trim_start_matches(['&', '(', '[']))
        }
        None => symbol.to_owned(),
    };
    let path = path.trim_start_matches("mut ").trim_start_matches("dyn ");
    let mut depth = 0;
    let plain: String = path
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '<');
            let is_plain = depth == 0;
            depth -= i32::from(*c == '>');
            is_plain
        })
        .collect();
    let parts = plain
        .split("::")
        .filter(|part| !part.is_empty() && !part.starts_with('{'));
    parts.collect::<Vec<_>>().join("::")
}

/// Splits the text behind an opening `<` at the `>` that closes it.
fn closed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            // The arrow of a function type closes nothing.
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests;
