//! One operation as a case: built as a network, compiled, executed from its words, compared with the plain evaluator.
#![allow(dead_code)]

use super::Random;
use anemone_compile::{Options, compile};
use anemone_engine::{Memory, Options as EngineOptions, run};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_facts::tolerance::{self, Tolerance};
use anemone_net::*;
use anemone_program::hwx::{self, Container};
use anemone_program::{Direction, Program};
use half::f16;
use std::sync::Arc;

/// An operation with its operands.
pub struct Case {
    pub name: String,
    kind: OpKind,
    inputs: Vec<Vec<usize>>,
    constants: Vec<Tensor>,
    range: (f32, f32),
    /// True for whole-number operands, so that some are equal.
    whole: bool,
    pub tolerance: &'static Tolerance,
    /// Declared result extents where they do not follow.
    result: Option<Vec<usize>>,
}

/// A case with runtime operands of these extents.
pub fn case(name: &str, kind: OpKind, inputs: &[&[usize]]) -> Case {
    Case {
        name: name.into(),
        kind,
        inputs: inputs.iter().map(|s| s.to_vec()).collect(),
        constants: vec![],
        range: (-2.0, 2.0),
        whole: false,
        tolerance: &tolerance::ROUNDING,
        result: None,
    }
}

impl Case {
    /// Adds constant operands of these extents.
    pub fn with(mut self, shapes: &[&[usize]]) -> Case {
        let mut random = Random::new(shapes.len() as u64 + 11);
        for shape in shapes {
            let n = shape.iter().product();
            let data = (0..n).map(|_| f16::from_f32(random.uniform(-0.5, 0.5))).collect();
            self.constants.push(Tensor { shape: shape.to_vec(), data: Data::F16(data) });
        }
        self
    }

    pub fn constant(mut self, shape: &[usize], value: f32) -> Case {
        let data = vec![f16::from_f32(value); shape.iter().product()];
        self.constants.push(Tensor { shape: shape.to_vec(), data: Data::F16(data) });
        self
    }

    pub fn range(mut self, low: f32, high: f32) -> Case {
        self.range = (low, high);
        self
    }

    pub fn whole(mut self) -> Case {
        self.whole = true;
        self
    }

    pub fn indices(mut self, shape: &[usize], values: &[i32]) -> Case {
        self.constants.push(Tensor { shape: shape.to_vec(), data: Data::I32(values.to_vec()) });
        self
    }

    pub fn table(mut self) -> Case {
        self.tolerance = &tolerance::TABLE;
        self
    }

    pub fn result(mut self, shape: &[usize]) -> Case {
        self.result = Some(shape.to_vec());
        self
    }

    /// Operation and extents on one line.
    pub fn summary(&self) -> String {
        let constants: Vec<&Vec<usize>> = self.constants.iter().map(|c| &c.shape).collect();
        format!("{:?} {:?} constants {constants:?}", self.kind, self.inputs)
    }

    /// Returns true if the operand chooses between others.
    fn is_condition(&self, operand: usize) -> bool {
        self.kind == OpKind::Select && operand == 0
    }

    /// The network of this one operation.
    pub fn net(&self) -> Net {
        let mut net = Net { name: "case".into(), ..Net::default() };
        let ty = |shape: &[usize]| TensorType { dtype: DType::F16, shape: shape.to_vec() };
        let mut operands = Vec::new();
        for (i, shape) in self.inputs.iter().enumerate() {
            let dtype = if self.is_condition(i) { DType::Bool } else { DType::F16 };
            let ty = TensorType { dtype, shape: shape.to_vec() };
            let id = net.add_value(Value { name: format!("x{i}"), ty, data: None, surface: None });
            net.inputs.push(id);
            operands.push(id);
        }
        for (i, tensor) in self.constants.iter().enumerate() {
            let data = Some(Arc::new(tensor.clone()));
            operands.push(net.add_value(Value { name: format!("c{i}"), ty: tensor.ty(), data, surface: None }));
        }
        let declared = self.result.as_ref().map(|s| ty(s));
        let types: Vec<&TensorType> = operands.iter().map(|&id| &net.value(id).ty).collect();
        let result = infer::infer(&self.kind, &types, declared.as_ref()).expect("types fit").remove(0);
        let out = net.add_value(Value { name: "y".into(), ty: result, data: None, surface: None });
        net.ops.push(Op { name: "y".into(), kind: self.kind.clone(), inputs: operands, outputs: vec![out] });
        net.outputs.push(out);
        net
    }

    /// Random inputs, the same on every run.
    fn draw(&self) -> Vec<Vec<f32>> {
        let mut random = Random::new(3);
        self.inputs
            .iter()
            .enumerate()
            .map(|(i, s)| {
                let drawn = (0..s.iter().product()).map(|_| random.uniform(self.range.0, self.range.1));
                drawn
                    .map(|x| {
                        if self.is_condition(i) {
                            f32::from(x > 0.0)
                        } else if self.whole {
                            x.round()
                        } else {
                            x
                        }
                    })
                    .collect()
            })
            .collect()
    }

    /// The program for the first chip, and inputs for it.
    pub fn program(&self) -> Result<(Program, Vec<Vec<f32>>), String> {
        let program = compile(&self.net(), &chips::CHIPS[0], &Options::default(), &mut ());
        Ok((program.map_err(|e| e.to_string())?, self.draw()))
    }

    /// Compiles a case and executes it by a number model; returns its result.
    pub fn results(&self, model: Model) -> Result<Vec<f32>, String> {
        let program =
            compile(&self.net(), &chips::CHIPS[0], &Options::default(), &mut ()).map_err(|e| e.to_string())?;
        execute(&program, &self.draw(), model)
    }

    pub fn check(&self) -> Result<String, String> {
        let net = self.net();
        let inputs = self.draw();
        let tensors: Vec<Tensor> = inputs
            .iter()
            .zip(&self.inputs)
            .enumerate()
            .map(|(i, (d, s))| {
                let conditions = || Data::Bool(d.iter().map(|&x| x != 0.0).collect());
                let data = if self.is_condition(i) { conditions() } else { Data::F32(d.clone()) };
                Tensor { shape: s.clone(), data }
            })
            .collect();
        let wanted = eval::eval(&net, &tensors).map_err(|e| e.to_string())?;
        let wanted = match &wanted[0].data {
            Data::F16(v) => v.iter().map(|x| x.to_f32()).collect::<Vec<_>>(),
            Data::F32(v) => v.clone(),
            Data::Bool(v) => v.iter().map(|&x| f32::from(x)).collect(),
            other => return Err(format!("evaluated to {other:?}")),
        };
        let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).map_err(|e| e.to_string())?;
        let got = execute(&program, &inputs, Model::Fast)?;
        if got.len() != wanted.len() {
            return Err(format!("{} elements for {}", got.len(), wanted.len()));
        }
        let again = execute(&written_and_read(&program)?, &inputs, Model::Fast)?;
        if got.iter().map(|x| x.to_bits()).ne(again.iter().map(|x| x.to_bits())) {
            return Err("another result from the container".into());
        }
        let largest = wanted.iter().fold(0f32, |m, x| m.max(x.abs()));
        let apart = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        let worst = apart(&got, &wanted);
        let tasks = program.tasks().map_err(|e| e.to_string())?.len();
        let share = self.tolerance.share;
        for model in [Model::Fixed, Model::Tiled] {
            let exact = execute(&program, &inputs, model)?;
            let (from_fast, admitted) = (apart(&exact, &got), share.max(tolerance::MODELS.share) * largest.max(0.25));
            if from_fast > admitted {
                return Err(format!("{} and fast are {from_fast:.2e} apart, {admitted:.2e} admitted", model.name()));
            }
        }
        let note = format!("{tasks} tasks, largest error {worst:.2e} of {largest:.2e}");
        if worst <= share * largest { Ok(note) } else { Err(note) }
    }
}

/// The program after a container of the compiler's form.
pub fn written_and_read(program: &Program) -> Result<Program, String> {
    let bytes = hwx::from_program(program, &hwx::Options::default()).map_err(|e| e.to_string())?.write();
    Container::read(&bytes).map_err(|e| e.to_string())?.program().map_err(|e| e.to_string())
}

pub fn port_rows(port: &anemone_program::Port) -> Vec<usize> {
    let (s, d) = (port.strides, port.shape);
    let mut rows = vec![];
    for n in 0..d.n as u64 {
        for c in 0..d.c as u64 {
            for h in 0..d.h as u64 {
                rows.push((n * s.batch_bytes + c * s.plane_bytes + h * s.row_bytes) as usize);
            }
        }
    }
    rows
}

pub fn execute(program: &Program, inputs: &[Vec<f32>], model: Model) -> Result<Vec<f32>, String> {
    let mut memory = Memory::for_program(program);
    for (port, data) in program.ports_of(Direction::Input).zip(inputs) {
        let bytes = memory.region_mut(port.bar).ok_or("unbound")?.bytes_mut();
        for (start, row) in port_rows(port).into_iter().zip(data.chunks(port.shape.w as usize)) {
            for (i, x) in row.iter().enumerate() {
                bytes[start + 2 * i..][..2].copy_from_slice(&f16::from_f32(*x).to_le_bytes());
            }
        }
    }
    let outcome =
        run(program, &mut memory, EngineOptions { model, ..EngineOptions::default() }).map_err(|f| f.to_string())?;
    if !outcome.incomplete.is_empty() {
        return Err("the output is not wholly written".into());
    }
    let port = program.ports_of(Direction::Output).next().ok_or("no output")?;
    let bytes = memory.region(port.bar).ok_or("unbound")?.bytes();
    let width = port.shape.w as usize;
    Ok(port_rows(port)
        .into_iter()
        .flat_map(|start| {
            bytes[start..start + 2 * width].chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
        })
        .collect())
}
