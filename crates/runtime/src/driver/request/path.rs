//! Data path of a request: device addresses translated page by page, before the run and before its results are published.

use super::{Bound, Request, Stray};
use crate::driver::Gate;
use crate::driver::resident::Route;
use crate::error::Code;
use crate::firmware::Fault;
use std::ops::Range;

impl Gate {
    /// Translates the memory that the program reads, sections and inputs. Returns the routes of the inputs.
    pub(super) fn read_routes(&mut self, request: &Request) -> Result<Vec<Route>, Stray> {
        for section in &request.sections {
            self.route(request, section, false)?;
        }
        request.inputs.iter().map(|b| self.route(request, b, false)).filter_map(Result::transpose).collect()
    }

    /// Translates the memory that the program writes. Returns the routes of the outputs.
    pub(super) fn write_routes(&mut self, request: &Request) -> Result<Vec<Route>, Stray> {
        request.outputs.iter().map(|b| self.route(request, b, true)).filter_map(Result::transpose).collect()
    }

    /// The route of one buffer; `None` for a section, whose bytes are in the program.
    fn route(&mut self, request: &Request, bound: &Bound, write: bool) -> Result<Option<Route>, Stray> {
        let stray = |address: u64| {
            let at = address.saturating_sub(bound.iova);
            request.stray(bound.bar, at..at + 1, address, write)
        };
        let spans = self.dart.walk(request.client, 0, bound.iova, bound.bytes, write).map_err(stray)?;
        let Some(memory) = &bound.memory else { return Ok(None) };
        let base = self.dart.phys(bound.surface).unwrap_or(0);
        let pieces = spans.iter().map(|span| (span.at, span.phys.wrapping_sub(base), span.bytes)).collect();
        Ok(Some(Route { memory: std::sync::Arc::clone(memory), pieces }))
    }

    /// Handles a translation fault: ends the request, resets the firmware, and records the fault.
    pub(super) fn strayed(&mut self, mut request: Request, stray: Stray) {
        tracing::warn!(?stray, "a translation fault");
        self.counters.faults += 1;
        self.counters.last_fault = Some(stray.clone());
        request.stray = Some(stray);
        self.complete(request, Code::ABORTED);
        self.stop(Fault::Translation);
        self.recover();
    }
}

impl Request {
    fn stray(&self, bar: u8, bytes: Range<u64>, address: u64, write: bool) -> Stray {
        let task = self.resident.first_task(bar, bytes, write);
        Stray { address, write, task, program: self.resident.program().name.clone(), pid: self.pid }
    }
}
