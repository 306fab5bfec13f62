//! A report as a page in one file, without scripts.

use std::fmt::Write as _;

use super::{Report, health, sections::sections, text};

const STYLE: &str = "\
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 0; } p { margin: .2rem 0 .6rem; opacity: .8; }
ul { padding-left: 1.2rem; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .8rem .25rem 0; text-align: left; white-space: nowrap; }
th { font-weight: 600; } tr:hover td { background: var(--soft); } .number { text-align: right; }
td:first-child { font-family: ui-monospace, monospace; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-size: .85rem; overflow-wrap: anywhere; } svg { width: 100%; display: block; }
.frame, polyline { fill: none; stroke-width: 1.5; vector-effect: non-scaling-stroke; } .frame { stroke: var(--line); }
polyline.lost { stroke: #d1495b; } polyline.zero { stroke: #4a94bf; } polyline.ends { stroke: #c98a1b; }
span.lost { color: #d1495b; } span.zero { color: #4a94bf; } span.ends { color: #c98a1b; }";

pub(super) fn page(report: &Report) -> String {
    let title = escaped(&text::title(report));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{title}</h1>\n<ul>\n"
    );
    for line in text::headlines(report) {
        let _ = writeln!(page, "<li>{}</li>", escaped(&line));
    }
    page.push_str("</ul>\n");
    let advice = text::advice(report);
    if !advice.is_empty() {
        let _ = write!(page, "<h2>{}</h2>\n<ul>\n", text::ADVICE);
        for advice in advice {
            let _ = writeln!(page, "<li>{}</li>", escaped(&advice));
        }
        page.push_str("</ul>\n");
    }
    for section in sections(report) {
        let _ = write!(
            page,
            "<h2>{}</h2>\n<p>{}</p>\n<div class=\"wide\">\n<table>\n",
            section.title,
            escaped(section.about)
        );
        row(&mut page, "th", &section.header, &section.numbers);
        for cells in &section.rows {
            row(&mut page, "td", cells, &section.numbers);
        }
        page.push_str("</table>\n</div>\n");
    }
    page.push_str(&health::pictures(report, escaped));
    page.push_str("</body>\n</html>\n");
    page
}

fn row(page: &mut String, tag: &str, cells: &[String], numbers: &[bool]) {
    page.push_str("<tr>");
    for (cell, is_number) in cells.iter().zip(numbers) {
        let class = if *is_number { " class=\"number\"" } else { "" };
        let _ = write!(page, "<{tag}{class}>{}</{tag}>", escaped(cell));
    }
    page.push_str("</tr>\n");
}

/// A text without characters that mean something in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace("-&gt;", "→")
}
