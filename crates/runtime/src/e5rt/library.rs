//! Libraries and functions: the calls of a descriptor, planned over the tensors between them.

use super::device::{Loaded, Piece, read_image};
use super::operation::{Call, DevicePort, End, Operation};
use super::surfaces::Surfaces;
use super::turns::Turns;
use super::{HostExecutor, HostSegment, Runtime, cast};
use crate::cache::{Bundle, Function as Signature, PortInfo, hex};
use crate::clock::Stages;
use crate::driver::resident::modelled;
use crate::driver::task::lock;
use crate::error::{Error, Result};
use crate::os::shared::Shared;
use anemone_program::e5::{Descriptor, Dispatch, HostCall, HostTensor, Mark, Repeat};
use anemone_program::{Direction, Program};
use std::sync::{Arc, Mutex};

/// Name of the first function of every library.
pub const MAIN: &str = "main";

/// Index of a tensor between calls, or between them and the caller.
type Slot = usize;

/// A call with the tensors that it reads and writes.
enum Step {
    /// Engine call: image by its position in the bundle, and one tensor per port.
    Engine { image: usize, procedure: u8, program: Arc<Program>, ports: Vec<Slot> },
    /// Host segment.
    Host { call: HostCall, inputs: Vec<Slot>, outputs: Vec<Slot> },
    /// Begin of a loop's iterations.
    Begin(Arc<Turns>),
    /// End of the iterations of the innermost loop.
    End,
}

/// The calls of a bundle, in order.
struct Plan {
    steps: Vec<Step>,
    tensors: Vec<PortInfo>,
    /// Tensors of the function's ports, in the order of its signature.
    ends: Vec<Slot>,
}

impl Plan {
    /// Plan of a further function: one procedure of the first image.
    fn of_procedure(bundle: &Bundle, function: &Signature) -> Result<Plan> {
        let mut plan = Plan { steps: Vec::new(), tensors: function.ports.clone(), ends: Vec::new() };
        plan.ends = (0..plan.tensors.len()).collect();
        let unknown = || Error::Unknown { what: "procedure", name: function.name.clone() };
        let programs = read_image(bundle.images.first().ok_or_else(unknown)?)?;
        let procedure = programs.iter().position(|p| p.name == function.name).ok_or_else(unknown)?;
        let step = plan.engine(0, procedure, programs)?;
        plan.steps.push(step);
        Ok(plan)
    }

    fn of(bundle: &Bundle) -> Result<Plan> {
        let broken = |e: &dyn std::fmt::Display| Error::Compile(format!("dispatch descriptor: {e}"));
        let descriptor = Descriptor::read(&bundle.descriptor).map_err(|e| broken(&e))?;
        let sequence = descriptor.sequence().map_err(|e| broken(&e))?;
        let hashes: Vec<String> = bundle.images.iter().map(|image| hex(&image.hash())).collect();
        let mut plan = Plan { steps: Vec::new(), tensors: bundle.function.ports.clone(), ends: Vec::new() };
        plan.ends = (0..plan.tensors.len()).collect();
        for name in sequence.inputs.iter().chain(&sequence.outputs) {
            plan.find(name).ok_or_else(|| Error::Unknown { what: "port", name: name.clone() })?;
        }
        // Declarations of host segments take precedence, since an engine port is always fp16 with four extents.
        for call in &sequence.calls {
            if let Dispatch::Host(call) = call {
                call.inputs.iter().chain(&call.outputs).for_each(|tensor| plan.declare(tensor));
            }
        }
        let mut open: Vec<(usize, HostCall)> = Vec::new();
        for call in sequence.calls {
            let step = match call {
                Dispatch::Host(call) if Mark::of(&call) == Some(Mark::Begin) => {
                    open.push((plan.steps.len(), call));
                    Step::End
                }
                Dispatch::Host(call) if Mark::of(&call) == Some(Mark::End) => {
                    let unmatched = || broken(&format!("{}: a loop ends that has not begun", call.name));
                    let (at, begin) = open.pop().ok_or_else(unmatched)?;
                    let repeat = Repeat::of(&begin, &call).map_err(|e| broken(&format!("{}: {e}", call.name)))?;
                    plan.steps[at] = Step::Begin(Arc::new(Turns::new(repeat, |name| plan.slot(name))?));
                    Step::End
                }
                Dispatch::Host(call) => {
                    let inputs = call.inputs.iter().map(|t| plan.slot(&t.name)).collect::<Result<_>>()?;
                    let outputs = call.outputs.iter().map(|t| plan.slot(&t.name)).collect::<Result<_>>()?;
                    Step::Host { call, inputs, outputs }
                }
                Dispatch::Engine(call) => {
                    let image = hashes.iter().position(|hash| *hash == call.hash);
                    let image = image.ok_or(Error::Unknown { what: "program image", name: call.name })?;
                    let programs = read_image(&bundle.images[image])?;
                    // A descriptor names the procedure if the container has several.
                    let procedure = programs.iter().position(|p| p.name == call.symbol).unwrap_or(0);
                    plan.engine(image, procedure, programs)?
                }
            };
            plan.steps.push(step);
        }
        match open.first() {
            None => Ok(plan),
            Some((_, call)) => Err(broken(&format!("{}: a loop begins that does not end", call.name))),
        }
    }

    fn find(&self, name: &str) -> Option<Slot> {
        self.tensors.iter().position(|t| t.name == name)
    }

    fn slot(&self, name: &str) -> Result<Slot> {
        self.find(name).ok_or_else(|| Error::Unknown { what: "tensor", name: name.into() })
    }

    fn declare(&mut self, tensor: &HostTensor) {
        if self.find(&tensor.name).is_none() {
            let HostTensor { name, storage, shape } = tensor.clone();
            self.tensors.push(PortInfo { name, dtype: storage as u8, shape, output: false });
        }
    }

    /// A call of one procedure of an image.
    fn engine(&mut self, image: usize, procedure: usize, mut programs: Vec<Program>) -> Result<Step> {
        let many = || Error::Size { what: "procedures".into(), found: programs.len() as u64, expected: 255 };
        let number = u8::try_from(procedure).map_err(|_| many())?;
        let program = programs.swap_remove(procedure);
        let mut ports = Vec::new();
        for port in &program.ports {
            let slot = self.find(&port.name).unwrap_or_else(|| {
                let shape = port.extents().into_iter().map(u64::from).collect();
                self.tensors.push(PortInfo { name: port.name.clone(), dtype: 3, shape, output: false });
                self.tensors.len() - 1
            });
            cast::check(&self.tensors[slot], port)?;
            ports.push(slot);
        }
        Ok(Step::Engine { image, procedure: number, program: Arc::new(program), ports })
    }
}

/// A compiled model.
#[derive(Clone)]
pub struct Library {
    runtime: Arc<Runtime>,
    bundle: Arc<Bundle>,
    plan: Arc<Plan>,
    /// Plans of further functions, in the order of their signatures.
    further: Vec<Arc<Plan>>,
    kept: bool,
    adapter: Arc<Vec<Piece>>,
}

impl Library {
    /// `kept` is true if the bundle comes from the cache.
    pub(super) fn new(runtime: Arc<Runtime>, bundle: Bundle, kept: bool) -> Result<Library> {
        let plan = Arc::new(Plan::of(&bundle)?);
        let further = bundle.function.further.iter().map(|f| Plan::of_procedure(&bundle, f).map(Arc::new));
        let further = further.collect::<Result<_>>()?;
        Ok(Library { runtime, bundle: Arc::new(bundle), plan, further, kept, adapter: Arc::default() })
    }

    /// The library with an adapter: an instance of its only program with replaced kernel data. The base is loaded once
    /// and shared.
    pub fn adapted(&self, pieces: Vec<Piece>) -> Result<Library> {
        if self.calls() != (1, 0) {
            let (found, what) = (self.calls().0 as u64, "programs of an adapted model".to_string());
            return Err(Error::Size { what, found, expected: 1 });
        }
        Ok(Library { adapter: Arc::new(pieces), ..self.clone() })
    }

    /// Returns true for a cache hit.
    pub fn was_kept(&self) -> bool {
        self.kept
    }

    /// Programs of the engine, in the order of their calls.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.plan.steps.iter().filter_map(|step| match step {
            Step::Engine { program, .. } => Some(program.as_ref()),
            Step::Host { .. } | Step::Begin(_) | Step::End => None,
        })
    }

    /// Function by name: a model has one, a container of several procedures one for each.
    pub fn function(&self, name: &str) -> Result<Function> {
        let plan = match self.place(name)? {
            None => &self.plan,
            Some(at) => &self.further[at],
        };
        let (bundle, adapter) = (Arc::clone(&self.bundle), Arc::clone(&self.adapter));
        let loading = Loading { bundle, adapter, loaded: Mutex::new(None) };
        Ok(Function { runtime: Arc::clone(&self.runtime), plan: Arc::clone(plan), loading: Arc::new(loading) })
    }

    /// Index of a function among the further ones; `None` for the first, which is also called `main`.
    fn place(&self, name: &str) -> Result<Option<usize>> {
        let function = &self.bundle.function;
        match function.further.iter().position(|f| f.name == name) {
            None if name != function.name && name != MAIN => {
                Err(Error::Unknown { what: "function", name: name.into() })
            }
            at => Ok(at),
        }
    }

    /// Signature of the first function.
    pub fn signature(&self) -> &Signature {
        &self.bundle.function
    }

    /// Signature of a function, by name.
    pub fn signature_of(&self, name: &str) -> Result<&Signature> {
        Ok(self.place(name)?.map_or(&self.bundle.function, |at| &self.bundle.function.further[at]))
    }

    /// The bundle, shared with the library.
    pub fn shared_bundle(&self) -> &Arc<Bundle> {
        &self.bundle
    }

    /// The bundle.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Numbers of engine programs and host segments.
    pub fn calls(&self) -> (usize, usize) {
        let hosts = self.plan.steps.iter().filter(|step| matches!(step, Step::Host { .. })).count();
        (self.programs().count(), hosts)
    }
}

/// A loaded call: a program on the device, or a host segment.
#[derive(Clone)]
enum Ready {
    Engine(Arc<dyn Loaded>),
    Host(Arc<dyn HostSegment>),
    Mark,
}

struct Loading {
    bundle: Arc<Bundle>,
    adapter: Arc<Vec<Piece>>,
    loaded: Mutex<Option<Vec<Ready>>>,
}

/// A function of a library.
#[derive(Clone)]
pub struct Function {
    runtime: Arc<Runtime>,
    plan: Arc<Plan>,
    loading: Arc<Loading>,
}

impl Function {
    /// Loads the programs, once; operations load them on demand.
    pub fn load(&self) -> Result<()> {
        self.loaded().map(drop)
    }

    fn loaded(&self) -> Result<Vec<Ready>> {
        let mut slot = lock(&self.loading.loaded);
        if let Some(loaded) = &*slot {
            return Ok(loaded.clone());
        }
        let name = &self.loading.bundle.function.name;
        let ready = |step: &Step| match step {
            Step::Engine { image, .. } => {
                let image = &self.loading.bundle.images[*image];
                let loaded = match self.loading.adapter.as_slice() {
                    [] => self.runtime.device.load(image, name),
                    pieces => self.runtime.device.adapt(image, name, pieces),
                };
                loaded.map(Ready::Engine)
            }
            Step::Host { call, .. } => prepare(self.runtime.host.as_deref(), call).map(Ready::Host),
            Step::Begin(_) | Step::End => Ok(Ready::Mark),
        };
        let loaded = self.plan.steps.iter().map(ready).collect::<Result<Vec<_>>>()?;
        *slot = Some(loaded.clone());
        Ok(loaded)
    }

    /// An operation that runs the function.
    pub fn operation(&self) -> Result<Arc<Operation>> {
        let mut calls: Vec<Call> = Vec::new();
        for (step, ready) in self.plan.steps.iter().zip(self.loaded()?) {
            let call = match (step, ready) {
                (&Step::Engine { ref program, ref ports, procedure, .. }, Ready::Engine(loaded)) => {
                    let inputs = program.ports.iter().zip(ports).filter(|(p, _)| p.direction == Direction::Input);
                    for (port, &slot) in inputs {
                        if let Some(maker) = calls.iter_mut().rev().find(|call| call.maker(slot, port).is_some()) {
                            maker.keep(slot, port);
                        }
                    }
                    let ports = self.device_ports((program, ports), loaded.as_ref(), &calls)?;
                    let stages = modelled(program).unwrap_or(Stages::SMALL);
                    Call::Engine { loaded, procedure, ports, stages, keeps: false, surfaces: Surfaces::default() }
                }
                (Step::Host { call, inputs, outputs }, Ready::Host(segment)) => Call::Host {
                    name: call.name.clone(),
                    segment,
                    inputs: inputs.clone(),
                    outputs: outputs.iter().map(|&slot| (slot, self.dense_bytes(slot))).collect(),
                },
                (Step::Begin(turns), Ready::Mark) => Call::Begin(Arc::clone(turns)),
                (Step::End, Ready::Mark) => Call::End,
                _ => return Err(Error::State { what: "operation", state: "loaded otherwise" }),
            };
            calls.push(call);
        }
        let info = |&slot: &Slot| End::new(self.plan.tensors[slot].clone(), slot);
        let ends = self.plan.ends.iter().map(info).collect();
        let sizes = (0..self.plan.tensors.len()).map(|slot| self.dense_bytes(slot));
        Ok(Arc::new(Operation::new(Arc::clone(&self.runtime), ends, calls, sizes)))
    }

    fn dense_bytes(&self, slot: Slot) -> usize {
        cast::dense_bytes(&self.plan.tensors[slot]).unwrap_or(0) as usize
    }

    /// Memory on the device for every port. An input written by another program in the same layout shares its memory.
    fn device_ports(
        &self,
        (program, slots): (&Program, &[Slot]),
        loaded: &dyn Loaded,
        before: &[Call],
    ) -> Result<Vec<DevicePort>> {
        let mut ports = Vec::with_capacity(program.ports.len());
        for (port, &slot) in program.ports.iter().zip(slots) {
            let made = match port.direction {
                Direction::Input => before.iter().rev().find_map(|call| call.maker(slot, port)),
                Direction::Output => None,
            };
            let memory = match &made {
                Some(memory) => Arc::clone(memory),
                None => Arc::new(Shared::new(port.bytes)?),
            };
            let surface = loaded.add_surface(Arc::clone(&memory))?;
            let info = self.plan.tensors[slot].clone();
            ports.push(DevicePort::new((info, slot), port.clone(), (memory, surface), made.is_some()));
        }
        Ok(ports)
    }
}

/// Prepares a host segment with the caller's executor.
fn prepare(host: Option<&dyn HostExecutor>, call: &HostCall) -> Result<Arc<dyn HostSegment>> {
    let refuse = |why: String| Error::Compile(format!("host segment {}: {why}", call.name));
    let host = host.ok_or_else(|| refuse("this runtime was given no host executor".into()))?;
    host.prepare(call).map_err(refuse)
}
