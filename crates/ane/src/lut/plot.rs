//! Plot of a curve and its error. The bitmap has no text, since this program contains no font.

use super::{Curve, Point};
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (900, 700);
/// Number of points of a line: more than the columns of the picture add nothing.
const POINTS: usize = 4000;

type Fault = String;

/// As an SVG document.
pub fn svg(curve: &Curve) -> Result<String, Fault> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&area, curve, true)?;
    }
    Ok(text)
}

/// As a PNG file.
pub fn png(curve: &Curve) -> Result<Vec<u8>, Fault> {
    let mut pixels = vec![0; 3 * (SIZE.0 * SIZE.1) as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, SIZE).into_drawing_area();
        draw(&area, curve, false)?;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, SIZE.0, SIZE.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let write = |mut encoder: png::Writer<&mut Vec<u8>>| encoder.write_image_data(&pixels);
    encoder.write_header().and_then(write).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Draws the function and its approximation above, the difference below, with its largest value marked.
fn draw<B: DrawingBackend>(area: &DrawingArea<B, Shift>, curve: &Curve, words: bool) -> Result<(), Fault> {
    let fault = |e: DrawingAreaErrorKind<B::ErrorType>| e.to_string();
    area.fill(&WHITE).map_err(fault)?;
    let finite = |p: &&Point| p.given.is_finite() && p.exact.is_finite();
    let all: Vec<&Point> = curve.points.iter().filter(finite).collect();
    let Some((first, last)) = all.first().zip(all.last()) else { return Err("no point is finite".into()) };
    let every = all.len().div_ceil(POINTS);
    let shown: Vec<&Point> = all.iter().copied().step_by(every).chain([*last]).collect();
    let across = first.x..last.x.max(first.x + f64::MIN_POSITIVE);
    let (upper, lower) = area.split_vertically(SIZE.1 * 3 / 5);
    let worst = curve.worst().filter(finite);
    let title =
        worst.map_or(curve.name.clone(), |w| format!("{}: largest error {:.3e} at {}", curve.name, w.error(), w.x));
    let values = shown.iter().flat_map(|p| [p.given, p.exact]);
    let pictures = [
        (upper, title, range(values), vec![(BLUE, line(&shown, |p| p.exact)), (RED, line(&shown, |p| p.given))]),
        (
            lower,
            "given less exact".to_string(),
            range(shown.iter().copied().chain(worst).map(|p| p.given - p.exact)),
            vec![(BLACK, line(&shown, |p| p.given - p.exact))],
        ),
    ];
    for (at, (area, title, range, lines)) in pictures.into_iter().enumerate() {
        let mut builder = ChartBuilder::on(&area);
        builder.margin(10);
        if words {
            builder.caption(title, ("sans-serif", 18)).x_label_area_size(30).y_label_area_size(80);
        }
        let mut chart = builder.build_cartesian_2d(across.clone(), range).map_err(fault)?;
        let mut mesh = chart.configure_mesh();
        if !words {
            mesh.x_labels(0).y_labels(0);
        }
        mesh.draw().map_err(fault)?;
        for (colour, line) in lines {
            chart.draw_series(LineSeries::new(line, colour)).map_err(fault)?;
        }
        if let (1, Some(w)) = (at, worst) {
            let mark = Circle::new((w.x, w.given - w.exact), 4, RED.filled());
            chart.draw_series([mark]).map_err(fault)?;
        }
    }
    area.present().map_err(fault)
}

fn line(points: &[&Point], y: fn(&Point) -> f64) -> Vec<(f64, f64)> {
    points.iter().map(|p| (p.x, y(p))).collect()
}

/// Range from least to greatest, with a margin.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    let margin = ((high - low) / 20.0).max(1e-9);
    low - margin..high + margin
}
