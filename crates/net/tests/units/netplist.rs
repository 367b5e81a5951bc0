//! Netplists that were read and are written come back.

use crate::read::{Disk, netplists};
use anemone_net::Error;
use anemone_net::check::check;
use anemone_net::eval::eval;
use anemone_net::graph::{Data, Net, Tensor, TensorType};
use anemone_net::netplist::*;
use anemone_net::read::{MemoryFiles, Options, read_netplist};

/// Netplists written anew compute the same.
#[test]
fn netplists_come_back() {
    let mut written = 0;
    for path in netplists() {
        let files = Disk(path.parent().unwrap().to_path_buf());
        let Ok((net, _)) = read_netplist(&std::fs::read(&path).unwrap(), &files, &Options::default()) else {
            continue;
        };
        let version = if written % 2 == 0 { Version::Procedures } else { Version::Flat };
        let (xml, weights) = match write_as(&net, version) {
            Ok(written) => written,
            Err(error) => {
                println!("{}: {error}", path.display());
                assert!(matches!(error, Error::Unsupported { .. }));
                continue;
            }
        };
        let files = MemoryFiles([(WEIGHTS.to_string(), weights.into())].into());
        let (again, _) = read_netplist(&xml, &files, &Options::default())
            .unwrap_or_else(|e| panic!("{}: {e}\n{}", path.display(), String::from_utf8_lossy(&xml)));
        check(&again).unwrap();
        let inputs: Vec<Tensor> = (net.inputs.iter())
            .map(|&i| {
                let ty = &net.value(i).ty;
                let values: Vec<f32> = (0..ty.elements()).map(|k| (k % 7) as f32 - 3.0).collect();
                Tensor { shape: ty.shape.clone(), data: Data::from_f32(ty.dtype, &values) }
            })
            .collect();
        let (a, b) = (eval(&net, &inputs).unwrap(), eval(&again, &inputs).unwrap());
        for (x, y) in a.iter().zip(&b) {
            let near = |(p, q): (&f32, &f32)| p == q || (p - q).abs() <= 1e-3 * p.abs().max(1e-3) || p.is_nan();
            assert!(x.data.to_f32().iter().zip(&y.data.to_f32()).all(near), "{}", path.display());
        }
        written += 1;
    }
    println!("{written} netplists written");
}

/// Ranks, truth values, operations without a unit and what a half does not hold: the same operations come back.
#[test]
fn every_operation_comes_back() {
    let text = r#"net "all" {
  input %x: f16[2, 4, 6]
  input %m: bool[6]
  const %k: f16[4] = [1.0, 2.0, 3.0, 4.0]
  const %i: i32[2] = [0, 3]
  %a: f16[2, 4, 6] = leaky_relu(%x) alpha=0.01
  %b: f16[2, 4, 6] = silu(%a)
  %c: f16[2, 6] = reduce_mean(%b) axes=[1] keep_dims=false
  %d: f16[2, 1, 6] = reshape(%c)
  %e: f16[2, 1, 4] = matmul(%d, %x) transpose_x=false transpose_y=true
  %f: f16[2, 1, 4] = layer_norm(%e, %k) axes=[2] epsilon=1e-5
  %g: f16[2, 1, 2] = gather(%f, %i) axis=2
  %h: f16[2, 4, 6] = select(%m, %x, %b)
  %o: f16[2, 2, 1] = transpose(%g) perm=[0, 2, 1]
  state %x %h name="memory"
  output %h
  output %o
}"#;
    let net = anemone_net::text::parse(text, &[]).unwrap();
    for version in [Version::Procedures, Version::Flat] {
        let (xml, weights) = write_as(&net, version).unwrap();
        let files = MemoryFiles([(WEIGHTS.to_string(), weights.into())].into());
        let (again, notes) = read_netplist(&xml, &files, &Options::default()).unwrap();
        check(&again).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        let kinds = |net: &Net| net.ops.iter().map(|op| op.kind.clone()).collect::<Vec<_>>();
        assert_eq!(kinds(&again), kinds(&net));
        let ports = |net: &Net| -> Vec<(String, TensorType)> {
            let ports = net.inputs.iter().chain(&net.outputs);
            ports.map(|&id| (net.value(id).name.clone(), net.value(id).ty.clone())).collect()
        };
        assert_eq!(ports(&again), ports(&net));
        assert_eq!(again.states.len(), 1);
    }
    // The keys are checked against the rest of the entry.
    let (xml, weights) = write(&net).unwrap();
    let files = MemoryFiles([(WEIGHTS.to_string(), weights.into())].into());
    let xml = String::from_utf8(xml).unwrap();
    for (from, to, told) in [
        ("<string>silu</string>", "<string>silo</string>", "no operation is called `silo`"),
        ("<string>matmul</string>", "<integer>3</integer>", "it has no `Kind`"),
        ("<key>AnemoneStates</key>", "<key>AnemoneState</key>", ""),
        ("<key>Input</key>", "<key>Inlet</key>", ""),
    ] {
        let damaged = xml.replace(from, to);
        let outcome = read_netplist(damaged.as_bytes(), &files, &Options::default());
        match outcome {
            Ok((net, _)) => assert!(told.is_empty() && check(&net).is_ok(), "{from}"),
            Err(error) => assert!(error.to_string().contains(told) && !told.is_empty(), "{from}: {error}"),
        }
    }
    let smaller = xml.replacen("<integer>6</integer>", "<integer>7</integer>", 1);
    let error = read_netplist(smaller.as_bytes(), &files, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("AnemoneShape"), "{error}");
}
