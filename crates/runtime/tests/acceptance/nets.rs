//! Small networks, compiled here for the tests, and a driver with everything open.

use anemone_compile::Options;
use anemone_facts::driver::entitlements as keys;
use anemone_facts::silicon;
use anemone_net::Net;
use anemone_program::{Direction, Program, hwx};
use anemone_runtime::driver::client::{Client, Create, Created, Submit};
use anemone_runtime::driver::sign::Signer;
use anemone_runtime::driver::task::{Identity, Task};
use anemone_runtime::driver::{Config, Driver};
use anemone_runtime::os::shared::Shared;
use half::f16;
use std::sync::Arc;

pub fn parse(text: &str) -> Net {
    let net = anemone_net::text::parse(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    anemone_net::check::check(&net).unwrap_or_else(|e| panic!("{e:?}"));
    net
}

pub fn compile(text: &str) -> Program {
    let chip = silicon::by_name("h13").expect("the chip");
    anemone_compile::compile(&parse(text), chip, &Options::default(), &mut ()).unwrap_or_else(|e| panic!("{e}"))
}

/// y = x + 1 over four channels.
pub const ADD_ONE: &str = r#"net "main" {
  input %x: f16[1, 4, 1, 8]
  const %one: f16[1, 1, 1, 1] = [1.0]
  %y: f16[1, 4, 1, 8] = add(%x, %one)
  output %y
}
"#;

/// next = slots * (1 - mask) + value * mask.
pub const MASKED: &str = r#"net "main" {
  input %slots: f16[1, 1, 1, 6]
  input %mask: f16[1, 1, 1, 6]
  input %value: f16[1, 1, 1, 6]
  %d: f16[1, 1, 1, 6] = sub(%value, %slots)
  %m: f16[1, 1, 1, 6] = mul(%d, %mask)
  %next: f16[1, 1, 1, 6] = add(%slots, %m)
  output %next
}
"#;

/// The small graph of the latency budget: 3x3 convolution 8 to 8, relu, mean.
pub fn tiny() -> String {
    let weights: Vec<String> =
        (0..8 * 8 * 9).map(|i| format!("{:.4}", ((i * 37 % 101) as f32 - 50.0) / 256.0)).collect();
    format!(
        r#"net "main" {{
  input %x: f16[1, 8, 8, 8]
  const %w: f16[8, 8, 3, 3] = [{}]
  %c: f16[1, 8, 8, 8] = conv(%x, %w) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=1
  %r: f16[1, 8, 8, 8] = relu(%c)
  %y: f16[1, 8, 1, 1] = reduce_mean(%r) axes=[2, 3] keep_dims=true
  output %y
}}
"#,
        weights.join(", ")
    )
}

pub fn image(program: &Program) -> Vec<u8> {
    hwx::from_program(program, &hwx::Options::default()).expect("a container").write()
}

pub fn all_keys() -> Vec<&'static str> {
    keys::ENTITLEMENTS.iter().filter(|e| e.kernel).map(|e| e.key).collect()
}

pub fn identity(team: &str, digest: &str) -> Identity {
    Identity { team: team.into(), digest: digest.into() }
}

pub fn task(pid: u32) -> Arc<Task> {
    Arc::new(Task::new(pid, identity("A", "X"), all_keys()))
}

pub fn start() -> (Arc<Driver>, Signer) {
    Driver::start(Config::default()).expect("the driver starts")
}

pub fn control(driver: &Arc<Driver>, task: &Arc<Task>) -> Client {
    let client = driver.open(task, 0).expect("control opens");
    client.open().expect("handshake");
    client
}

pub fn direct(driver: &Arc<Driver>, task: &Arc<Task>) -> Client {
    let client = driver.open(task, 1).expect("direct opens");
    client.open().expect("handshake");
    client
}

pub struct Loaded {
    pub client: Client,
    pub created: Created,
    pub program: Program,
    pub inputs: Vec<u32>,
    pub outputs: Vec<u32>,
    pub memory: Vec<Arc<Shared>>,
}

/// A prepared program with surfaces for its ports.
pub fn load(driver: &Arc<Driver>, signer: &Signer, task: &Arc<Task>, text: &str) -> Loaded {
    let program = compile(text);
    let client = control(driver, task);
    let file = signer.sign(&image(&program));
    let created = client
        .create(Create { image: file.clone().into(), name: "main_main__Op0_AneInference", ..Create::default() })
        .expect("create");
    client.prepare(created.token).expect("prepare");
    let (mut memory, mut inputs, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    for way in [Direction::Input, Direction::Output] {
        for port in program.ports_of(way) {
            let shared = Arc::new(Shared::new(port.bytes).expect("memory"));
            let id = client.add_surface(shared.clone()).expect("surface");
            memory.push(shared);
            if way == Direction::Input { inputs.push(id) } else { outputs.push(id) }
        }
    }
    Loaded { client, created, program, inputs, outputs, memory }
}

impl Loaded {
    pub fn submit(&self) -> Submit<'_> {
        Submit::new(self.created.token, &self.inputs, &self.outputs)
    }

    pub fn fill(&self, port: usize, value: f32) {
        let bytes = f16::from_f32(value).to_le_bytes();
        let shared = &self.memory[port];
        shared.write(&bytes.repeat(shared.len() / 2));
    }

    pub fn first(&self, port: usize) -> f32 {
        let b = self.memory[port].to_vec();
        f16::from_le_bytes([b[0], b[1]]).to_f32()
    }
}

/// Compiles networks in text form, from files.
pub struct TextCompiler;

impl anemone_runtime::e5rt::Compiler for TextCompiler {
    fn content(&self, model: &std::path::Path) -> Result<[u8; 32], String> {
        let text = std::fs::read(model).map_err(|e| e.to_string())?;
        Ok(anemone_runtime::driver::sign::sha256(&text))
    }

    fn compile(
        &self,
        model: &std::path::Path,
        options: &anemone_runtime::e5rt::CompileOptions,
    ) -> Result<anemone_runtime::cache::Bundle, String> {
        let text = std::fs::read_to_string(model).map_err(|e| e.to_string())?;
        let net = anemone_net::text::parse(&text, &[]).map_err(|e| e.to_string())?;
        anemone_net::check::check(&net).map_err(|e| format!("{e:?}"))?;
        let chip = silicon::by_name(&options.platform).ok_or("no such platform")?;
        let program = anemone_compile::compile(&net, chip, &Options::default(), &mut ()).map_err(|e| e.to_string())?;
        bundle(&net, &program)
    }
}

pub fn bundle(net: &Net, program: &Program) -> Result<anemone_runtime::cache::Bundle, String> {
    use anemone_runtime::cache::{Bundle, Function, PortInfo};
    let image = hwx::from_program(program, &hwx::Options::default()).map_err(|e| e.to_string())?.write();
    let info = anemone_program::e5::Info { function: "main".into(), ..Default::default() };
    let call = anemone_program::e5::Call { program, container: &image };
    let descriptor = anemone_program::e5::from_calls(&[call], &[], &info).write();
    let port = |id, output| {
        let value = net.value(id);
        let code = match value.ty.dtype {
            anemone_net::DType::F16 => 3,
            anemone_net::DType::F32 => 4,
            anemone_net::DType::I32 => 7,
            other => return Err(format!("{} as input or output", other.name())),
        };
        let shape = value.ty.shape.iter().map(|&n| n as u64).collect();
        Ok(PortInfo { name: value.name.clone(), dtype: code, shape, output })
    };
    let inputs = net.inputs.iter().map(|&id| port(id, false));
    let ports = inputs.chain(net.outputs.iter().map(|&id| port(id, true))).collect::<Result<_, String>>()?;
    Ok(Bundle {
        images: vec![image.into()],
        descriptor,
        function: Function { name: "main".into(), ports, ..Function::default() },
    })
}
