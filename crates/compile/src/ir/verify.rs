//! Verifier of the layer graph: views lie in their buffers, inputs and constants are not written, and the text form round-trips.

use super::{ELEMENT_BYTES, Graph, Kind, Layer, Role, View4};
use anemone_facts::kernel::ALIGN_BYTES;

impl Graph {
    /// Defects of the graph, one message each, prefixed with the layer's name; empty for a well-formed graph.
    pub fn verify(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for id in self.inputs.iter().chain(&self.outputs).filter(|id| id.0 as usize >= self.buffers.len()) {
            wrong.push(format!("port {}: there are {} buffers", id.0, self.buffers.len()));
        }
        for layer in &self.layers {
            wrong.extend(self.verify_layer(layer).map(|what| format!("{}: {what}", layer.name)));
        }
        if wrong.is_empty() {
            let (text, data) = self.print();
            match Graph::parse(&text, &data) {
                Ok(back) if back.print() == (text, data) => {}
                Ok(_) => wrong.push("its text reads back as another graph".into()),
                Err(e) => wrong.push(format!("its text does not read back: {e}")),
            }
        }
        wrong
    }

    fn verify_layer(&self, layer: &Layer) -> Option<String> {
        if layer.sources.is_empty() || layer.broadcast.len() > layer.sources.len() {
            return Some(format!("{} sources, {} of them broadcast", layer.sources.len(), layer.broadcast.len()));
        }
        let sources = layer.sources.iter().enumerate();
        let wrong = sources
            .filter_map(|(i, view)| Some(format!("source {i}: {}", self.verify_view(view, layer.interleave_of(i))?)));
        let result = self.verify_view(&layer.result, layer.interleave).map(|what| format!("result: {what}"));
        if let Some(what) = wrong.chain(result).next() {
            return Some(what);
        }
        // The rows of a product's coefficients are one stream for each channel.
        if let (Kind::Product { .. }, Some(rows)) = (&layer.kind, layer.sources.get(1)) {
            let row_bytes = (rows.width as u64 * ELEMENT_BYTES).next_multiple_of(ALIGN_BYTES);
            if rows.height() > 1 && rows.axes[2].stride_bytes != row_bytes {
                return Some(format!(
                    "rows of coefficients {} bytes apart, not {row_bytes}",
                    rows.axes[2].stride_bytes
                ));
            }
        }
        match self.buffer(layer.result.buffer).role {
            Role::Input | Role::Constant(_) => Some("writes an input or a constant".into()),
            Role::Output | Role::Scratch => None,
        }
    }

    fn verify_view(&self, view: &View4, interleave: usize) -> Option<String> {
        let Some(buffer) = self.buffers.get(view.buffer.0 as usize) else {
            return Some(format!("buffer {}: there are {}", view.buffer.0, self.buffers.len()));
        };
        if view.width == 0 || interleave == 0 || view.axes.iter().any(|a| a.extent == 0) {
            return Some("an extent of 0".into());
        }
        let mut extents = view.axes.map(|a| a.extent as u64);
        extents[1] = extents[1].div_ceil(interleave as u64);
        let reach = extents.iter().zip(&view.axes).map(|(extent, axis)| (extent - 1) * axis.stride_bytes);
        let row_bytes = (view.width * interleave) as u64 * buffer.element_bytes;
        let end = view.offset_bytes + reach.sum::<u64>() + row_bytes;
        (end > buffer.bytes).then(|| format!("ends at byte {end}, {} has {}", buffer.name, buffer.bytes))
    }
}
