//! Verifier of the layer graph: views lie in their buffers, inputs and constants are not written, and the text form round-trips.

use super::{Graph, Layer, Role, View4};

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
        let interleave = |source: usize| if source == 0 { layer.source_interleave } else { 1 };
        let sources = layer.sources.iter().enumerate();
        let wrong =
            sources.filter_map(|(i, view)| Some(format!("source {i}: {}", self.verify_view(view, interleave(i))?)));
        let result = self.verify_view(&layer.result, layer.interleave).map(|what| format!("result: {what}"));
        if let Some(what) = wrong.chain(result).next() {
            return Some(what);
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
        let row_bytes = (view.width * interleave) as u64 * super::ELEMENT_BYTES;
        let end = view.offset_bytes + reach.sum::<u64>() + row_bytes;
        (end > buffer.bytes).then(|| format!("ends at byte {end}, {} has {}", buffer.name, buffer.bytes))
    }
}

#[cfg(test)]
mod tests {
    use crate::options::Options;
    use crate::{Log, Stage};

    const TEXT: &str = "net \"n\" {\n  input %x: f16[1, 2, 3, 4]\n  %y: f16[1, 2, 3, 4] = relu(%x)\n  output %y\n}\n";

    /// The graph after lowering of `relu` on a small tensor.
    fn graph() -> super::Graph {
        let net = anemone_net::text::parse(TEXT, &[]).expect("a network");
        let chip = anemone_facts::chips::CHIPS.iter().find(|c| c.layout.is_some()).expect("a chip");
        crate::lower::lower(&net, chip, &Options::default()).expect("lowered")
    }

    #[test]
    fn lowered_graphs_are_well_formed_and_damaged_ones_are_not() {
        let whole = graph();
        assert_eq!(whole.verify(), Vec::<String>::new());
        let mut short = whole.clone();
        short.buffers[0].bytes = 1;
        assert_eq!(short.verify().len(), 1);
        let mut unbound = whole.clone();
        unbound.layers[0].result.buffer.0 = 99;
        assert!(unbound.verify()[0].contains("buffer 99"), "{:?}", unbound.verify());
        let mut backwards = whole;
        backwards.layers[0].result = backwards.layers[0].sources[0];
        assert!(backwards.verify()[0].contains("writes an input"));
    }

    #[test]
    fn every_stage_of_a_compilation_has_a_text() {
        struct Names(Vec<&'static str>);
        impl Log for Names {
            fn wants(&self) -> bool {
                true
            }
            fn stage(&mut self, stage: Stage) {
                assert!(!stage.text.is_empty() && !stage.dot.is_empty(), "{}", stage.name);
                self.0.push(stage.name);
            }
        }
        let net = anemone_net::text::parse(TEXT, &[]).expect("a network");
        let chip = anemone_facts::chips::CHIPS.iter().find(|c| c.layout.is_some()).expect("a chip");
        let mut names = Names(Vec::new());
        crate::compile(&net, chip, &Options::default(), &mut names).expect("compiled");
        assert_eq!(names.0, crate::pipeline::ALL.iter().map(|p| p.dump).collect::<Vec<_>>());
    }
}
