//! `ane check` on real packages: the same tables as before, and a page that works in a browser. How long it takes is
//! measured by the bench `check`.
//!
//! Tables are kept in `tests/check/NAME.txt`; `ANE_BLESS=1` writes them anew.

use crate::common;

use anemone::check::{self, Report, Subject, html, table};
use anemone_check::Route;
use anemone_check::lint::Assumptions;
use anemone_facts::chips::Chip;
use anemone_facts::silicon::by_name;
use common::*;
use std::path::{Path, PathBuf};
use std::process::Command;

const CHIPS: &[&str] = &["m1", "m2", "m3", "m4", "m5", "a14", "a15", "a16", "a17-pro", "a18"];

fn report(package: &Path) -> Report {
    let chips: Vec<(String, &'static Chip)> = CHIPS.iter().filter_map(|c| Some((c.to_string(), by_name(c)?))).collect();
    let Ok(Subject::Program(outline, _)) = check::load(package, &Default::default()) else {
        panic!("{} is read", package.display())
    };
    let name = package.parent().map(stem).unwrap_or_default();
    check::report(Path::new(&name), *outline, &chips, Route::Direct, &Assumptions::default())
}

fn packages() -> Vec<PathBuf> {
    let folders = models_dir().map(|dir| entries(&dir)).unwrap_or_default();
    folders.into_iter().map(|f| f.join("model.mlpackage")).filter(|p| p.is_dir()).collect()
}

#[test]
fn tables() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check");
    for package in packages() {
        let text = table::render(&report(&package), table::Style::default());
        let name = package.parent().map(stem).unwrap_or_default();
        let file = kept.join(format!("{name}.txt"));
        if std::env::var_os("ANE_BLESS").is_some() {
            std::fs::create_dir_all(&kept).expect("a folder");
            std::fs::write(&file, &text).expect("a table");
            continue;
        }
        // A package that is new here has no table yet.
        let Ok(wanted) = std::fs::read_to_string(&file) else {
            println!("{name}: no table kept");
            continue;
        };
        assert_eq!(text, wanted, "{name}: ANE_BLESS=1 writes it anew");
    }
}

/// The program that shows pages, if there is one.
fn browser() -> Option<&'static str> {
    let works = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(works);
    if found.is_none() {
        println!("skipped: no Chromium");
    }
    found
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.mlpackage");
    let mut all = packages();
    all.push(example);
    for package in all {
        // The page's own script tries its filters, then says how it went.
        let driven = html::page(&report(&package)).replace("</body>", &format!("<script>{DRIVE}</script></body>"));
        let page = folder.path().join("page.html");
        std::fs::write(&page, driven).expect("a page");
        let address = format!("file://{}", page.display());
        let flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=5000",
            "--enable-logging=stderr",
            "--dump-dom",
        ];
        let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
        let ran = Command::new(browser).args(flags).arg(profile).arg(address).output().expect("the browser runs");
        let dom = String::from_utf8_lossy(&ran.stdout);
        let console = String::from_utf8_lossy(&ran.stderr);
        let told: Vec<&str> = console.lines().filter(|l| l.contains(":CONSOLE")).collect();
        assert!(told.is_empty(), "{}: {told:?}", package.display());
        let result =
            dom.split("id=\"driven\">").nth(1).and_then(|t| t.split('<').next()).unwrap_or("the script did not end");
        assert_eq!(result, "fine", "{}", package.display());
    }
}

/// Clicks and types as a user would, and notes errors.
const DRIVE: &str = r##"
const wrong = [];
window.addEventListener("error", e => wrong.push("error: " + e.message));
const need = (holds, what) => { if (!holds) wrong.push(what); };
const all = selector => document.querySelectorAll(selector);
need(document.body.dataset.ready === "yes", "the script did not run to its end");
if (state.blocks) {
  const few = all("#graph .node").length;
  need(few <= data.operations.length, "blocks are more than operations");
  document.getElementById("blocks").click();
  need(all("#graph .node").length >= few, "blocks do not open");
}
const svg = () => document.querySelector("#graph svg").getAttribute("width");
const narrow = Number(svg());
document.getElementById("in").click();
need(Number(svg()) > narrow, "zoom does nothing");
document.getElementById("fit").click();
need(all("#summary .group").length === data.summary.length && all("#summary .bar span").length > 0, "no verdict");
need(all("#causes .cause").length === data.causes.length, "a cause is missing");
const linked = data.operations.findIndex(op => !op.constant);
location.hash = "#op=" + encodeURIComponent(data.operations[linked].name) + "&route=framework";
follow();
need(state.chosen === linked && state.route === "framework", "a link does not lead to its operation");
need(document.getElementById("detail").textContent.includes("link"), "no link is shown");
state.route = data.route;
draw();
const nodes = all("#graph .node").length;
need(nodes > 0 && all("#graph .edge").length > 0, "no graph is drawn");
const made = new Set(data.operations.filter(op => !op.constant).flatMap(op => op.results));
const read = data.operations.filter(op => !op.constant).reduce((n, op) => n + op.operands.filter(name => made.has(name)).length, 0);
need(all("#graph .edge").length === read, "an edge for each operand: " + all("#graph .edge").length + " of " + read);
need(all("#graph .segment").length > 0, "no segment is drawn");
need(all("#chips tbody tr").length === 2 * data.chips.length, "a row for each chip and route");
const search = document.getElementById("search");
search.value = "no such operation";
search.dispatchEvent(new Event("input"));
need(all("#graph .node.dim").length === nodes && all("#list tbody tr").length === 0, "search does not filter");
search.value = "";
search.dispatchEvent(new Event("input"));
need(all("#graph .node.dim").length === 0, "an empty search filters");
const before = all("#list tbody tr").length;
all("#legend button").forEach(b => b.click());
need(all("#list tbody tr").length === 0, "places do not filter");
all("#legend button").forEach(b => b.click());
need(all("#list tbody tr").length === before, "places do not come back");
all("#graph .node")[0].dispatchEvent(new Event("click"));
const detail = document.getElementById("detail");
need(detail.textContent.includes("evidence"), "a click shows no evidence");
const refused = data.chips[0].direct.verdicts.findIndex((v, at) => v.refusal && !data.operations[at].constant);
if (refused >= 0) {
  const node = document.querySelector('#graph .node[data-at="' + refused + '"]');
  need(node !== null, "what is refused is not drawn");
  if (node) node.dispatchEvent(new Event("click"));
  need(detail.textContent.includes(data.chips[0].direct.verdicts[refused].refusal.fix), "a click shows no reason and fix");
}
const chip = document.getElementById("chip");
chip.value = String(data.chips.length - 1);
chip.dispatchEvent(new Event("change"));
need(document.getElementById("detail").textContent.includes(data.chips[data.chips.length - 1].chip), "the chip does not change");
const route = document.getElementById("route");
route.value = "framework";
route.dispatchEvent(new Event("change"));
need(state.route === "framework", "the route does not change");
const told = document.createElement("p");
told.id = "driven";
told.textContent = wrong.length ? wrong.join("; ") : "fine";
document.body.append(told);
"##;
