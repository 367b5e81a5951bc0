//! The page of `ane check --html`, clicked through in headless Chromium where there is one (`ANE_CHROMIUM` names another).

use crate::ane;
use crate::harness::*;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The first browser that starts; without one the tests say so and pass.
fn browser() -> Option<String> {
    let asked = std::env::var("ANE_CHROMIUM").ok();
    let starts = |name: &String| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let found = asked.into_iter().chain(BROWSERS.map(String::from)).find(starts);
    if found.is_none() {
        println!("no Chromium: the page is not opened");
    }
    found
}

/// Opens a page, runs a script on it that returns a value, and gives that value.
fn on_page(browser: &str, page: &str, width: u32, script: &str) -> Value {
    let text = std::fs::read_to_string(page).expect("a page");
    let probe = format!(
        "<script>let told; try {{ told = (() => {{ {script} }})(); }} catch (e) {{ told = {{ error: String(e) }}; }}
        const pre = document.createElement('pre'); pre.id = 'told'; pre.textContent = JSON.stringify(told);
        document.documentElement.replaceChildren(pre);</script></body>"
    );
    // The page's own data may hold other pages: the last end of a body is its own.
    let at = text.rfind("</body>").expect("a body");
    let clicked = Path::new(page).with_extension("clicked.html");
    std::fs::write(&clicked, format!("{}{probe}{}", &text[..at], &text[at + 7..])).expect("a page");
    let profile = tempfile::tempdir().expect("a folder");
    let ran = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--window-size={width},1000"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", clicked.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser ends");
    let _ = std::fs::remove_file(&clicked);
    let dom = String::from_utf8_lossy(&ran.stdout).into_owned();
    let told = dom.split("<pre id=\"told\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let told = told.unwrap_or_else(|| panic!("no answer: {dom:.300} {}", String::from_utf8_lossy(&ran.stderr)));
    let plain = told.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    let value: Value = serde_json::from_str(&plain).expect("JSON");
    assert!(value["error"].is_null(), "{value}");
    value
}

/// Functions that the scripts share: nodes that stand in the pane of the graph, and the panel's text.
const EYES: &str = "
    const pane = () => by('graph').getBoundingClientRect();
    const seen = () => { const p = pane(); return [...document.querySelectorAll('#graph .node')].filter(n => {
        const b = n.getBoundingClientRect(); return b.right > p.left && b.left < p.right && b.bottom > p.top && b.top < p.bottom; }).length; };
    const click = node => node.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    const set = (id, value, event) => { by(id).value = value; by(id).dispatchEvent(new Event(event)); };
    const panel = () => by('detail').textContent;
    const flat = () => document.documentElement.scrollWidth <= innerWidth;";

#[test]
fn the_page_is_clicked_through() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    let ([package, ..], page) = (digits(), scratch.out("page.html"));
    ane!("check", package, "-t", "m1,m4,a12", "--html", page);
    let script = format!(
        "{EYES}
        const told = {{ headline: by('verdict').textContent, nodes: document.querySelectorAll('#graph .node').length, seen: seen() }};
        const conv = ops.findIndex(op => op.op === 'conv'), softmax = ops.findIndex(op => op.op === 'softmax');
        click(document.querySelector('#graph .node[data-at=\"' + conv + '\"]')); told.opened = panel(); told.edges = by('graph').textContent;
        told.times = by('times').textContent; told.groups = [...document.querySelectorAll('.group')].map(g => g.textContent);
        set('chip', 2, 'change'); told.chip = by('times').textContent; choose(softmax); told.refused = panel();
        set('search', 'softmax', 'input'); told.rows = document.querySelectorAll('#list tbody tr').length;
        told.dim = document.querySelectorAll('#graph .node.dim').length; set('search', '', 'input');
        location.hash = '#op=' + ops[conv].name + '&chip=m4&route=framework'; follow();
        told.linked = [state.chip, state.route, state.chosen === conv];
        for (let i = 0; i < 9; i++) click(by('in')); told.near = seen();
        for (let i = 0; i < 30; i++) click(by('out')); told.far = seen(); click(by('fit')); told.fitted = seen();
        told.flat = flat(); dispatchEvent(new Event('beforeprint'));
        told.folded = document.querySelectorAll('details:not([open])').length; return told;"
    );
    for width in [1400, 480] {
        let told = on_page(&browser, &page, width, &script);
        let text = |key: &str| told[key].as_str().unwrap_or_default().to_string();
        assert!(text("headline").starts_with("no (direct): "), "{told}");
        assert!(told["nodes"].as_u64() > Some(5) && told["seen"].as_u64() > Some(2), "{told}");
        assert!(text("opened").contains("kernel") || text("opened").contains("weight"), "attributes: {told}");
        assert!(text("opened").contains("time on the engine (modelled)"), "{told}");
        assert!(text("edges").contains("[1, 16, 8, 8]"), "shapes on edges: {told}");
        assert!(text("times").contains("a run on m1") && text("times").contains("modelled"), "{told}");
        let groups = told["groups"].as_array().cloned().unwrap_or_default();
        assert!(groups[0].as_str().is_some_and(|g| g.contains(" a run on m1 (")), "the M4 has no time: {told}");
        assert!(text("chip").starts_with("No time is modelled for a12: "), "a time is not guessed: {told}");
        assert!(text("refused").contains("falls back to CPU") && text("refused").contains("fix"), "{told}");
        assert_eq!(told["rows"], 1, "{told}");
        assert!(told["dim"].as_u64() > Some(4), "{told}");
        assert_eq!(told["linked"], serde_json::json!([1, "framework", true]), "{told}");
        for zoom in ["near", "far", "fitted"] {
            assert!(told[zoom].as_u64() > Some(0), "the graph is out of sight: {told}");
        }
        assert_eq!(told["flat"], true, "the page itself scrolls sideways: {told}");
        assert_eq!(told["folded"], 0, "nothing can be opened on paper: {told}");
    }
}

/// On paper the page has its cards one below the other, and neither controls nor an empty panel.
#[test]
fn the_page_is_printed() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    let ([package, ..], page, paper) = (digits(), scratch.out("page.html"), scratch.out("page.pdf"));
    ane!("check", package, "--html", page).fine();
    let profile = tempfile::tempdir().expect("a folder");
    let ran = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"])
        .arg(format!("--print-to-pdf={paper}"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{page}"))
        .stdin(Stdio::null())
        .output()
        .expect("the browser ends");
    assert!(ran.status.success(), "{ran:?}");
    let bytes = std::fs::read(&paper).expect("a document");
    let pages = bytes.windows(12).filter(|w| *w == b"/Type /Page\n").count();
    assert!((2..=6).contains(&pages), "{pages} pages");
}

#[test]
fn three_hundred_operations_on_ten_chips() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    let mut text = String::from("program(1.0) { func main<ios16>(tensor<fp16, [1, 4, 8, 8]> v0) {\n");
    for at in 0..300 {
        let ty = "tensor<fp16, [1, 4, 8, 8]>";
        let line = match at % 3 {
            0 => format!("relu(x = v{at})"),
            1 => format!("sigmoid(x = v{at})"),
            _ => format!("add(x = v{at}, y = v{})", at - 1),
        };
        text += &format!("{ty} v{} = {line}[name = string(\"v{}\")];\n", at + 1, at + 1);
    }
    let model = scratch.file("long.mil", text + "} -> (v300); }");
    let page = scratch.out("long.html");
    ane!("check", model, "-t", "m1,m2,m3,m4,m5,a14,a15,a16,a17-pro,a18", "--html", page).fine();
    let script = format!(
        "{EYES}
        const told = {{ blocks: document.querySelectorAll('#graph .node.block').length, closed: document.querySelectorAll('#graph .node').length,
            chips: by('chip').options.length, groups: document.querySelectorAll('.group').length, first: seen() }};
        click(document.querySelector('#graph .node.block')); told.opened = document.querySelectorAll('#graph .node').length;
        click(by('blocks')); click(by('blocks')); told.again = document.querySelectorAll('#graph .node').length;
        choose(290); told.chosen = document.querySelector('#graph .node.chosen') !== null && seen();
        told.flat = flat(); return told;"
    );
    let told = on_page(&browser, &page, 1400, &script);
    let count = |key: &str| told[key].as_u64().unwrap_or(0);
    assert!(count("blocks") >= 1 && count("closed") < 60, "repeated blocks are one node: {told}");
    assert!(count("opened") > count("closed") && count("again") == count("closed"), "open and collapse: {told}");
    assert!(count("chips") == 10 && (1..10).contains(&count("groups")), "chips with one answer share a line: {told}");
    assert!(count("first") > 0 && count("chosen") > 0 && told["flat"] == true, "{told}");
}

#[test]
fn several_models_have_one_page() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    let ([package, ..], page) = (digits(), scratch.out("all.html"));
    let absent = scratch.path("none.onnx");
    assert_eq!(ane!("check", package, scratch.relu(), absent, "-t", "m1,a12", "--html", page).code, Some(2));
    let script = "
        const hidden = by('page').hidden, rows = document.querySelectorAll('tr.model');
        rows[0].dispatchEvent(new MouseEvent('click', { bubbles: true }));
        return { hidden, rows: rows.length, shown: !by('page').hidden, opened: by('page').srcdoc.includes('digits.mlpackage'),
            all: by('models').textContent, verdict: by('verdict').textContent };";
    let told = on_page(&browser, &page, 1000, script);
    assert_eq!(told["hidden"], true, "{told}");
    assert!(told["rows"].as_u64() >= Some(2) && told["shown"] == true && told["opened"] == true, "{told}");
    assert!(told["all"].as_str().is_some_and(|t| t.contains("cannot read") && t.contains("reduce_mean")), "{told}");
    assert!(told["verdict"].as_str().is_some_and(|t| t.contains("1 cannot be read")), "{told}");
}
