//! Power: domains, polls, and the stores that arm it.

use anemone_facts::driver::limits as rows;

/// Power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Everything off.
    AllOff,
    /// Waiting for the base domain.
    BaseWait,
    /// The base domain is on.
    BaseOn,
    /// This number of clusters is running.
    Clusters(u32),
    /// On, with the idle gate armed.
    IdleArmed,
    /// A domain did not power on.
    FaultOff,
}

/// Access to a power register or switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Poll of a register: address, and the number of attempts.
    Poll(u64, u32),
    /// A store: value, address.
    Store(u32, u64),
    /// A message to the performance controller about a dispatch.
    Perf,
}

/// The power model.
#[derive(Debug)]
pub struct Power {
    /// Current state.
    pub state: State,
    /// Number of changes between off and on since the start.
    pub changes: u64,
    /// Number of clients that keep the device on.
    pub persistent: u32,
    /// Accesses to power registers, in order; the first 256 since the start.
    pub touched: Vec<Touch>,
    /// Number of polls until a domain is on.
    pub polls_needed: u32,
    /// True if the idle gate is enabled.
    pub gating: bool,
    /// True if the device powers off by itself.
    pub managed: bool,
    /// Idle time until power-off, in nanoseconds.
    pub hysteresis_ns: u64,
}

const MAX_TOUCHED: usize = 256;

impl Default for Power {
    fn default() -> Self {
        Power {
            state: State::AllOff,
            changes: 0,
            persistent: 0,
            touched: Vec::new(),
            polls_needed: 1,
            gating: true,
            managed: true,
            hysteresis_ns: rows::LONG_GAP_NS,
        }
    }
}

impl Power {
    fn touch(&mut self, touch: Touch) {
        if self.touched.len() < MAX_TOUCHED {
            self.touched.push(touch);
        }
    }

    fn poll(&mut self, register: u64) -> bool {
        let tries = self.polls_needed.min(rows::POLL_TRIES as u32);
        self.touch(Touch::Poll(register, tries));
        u64::from(self.polls_needed) <= rows::POLL_TRIES
    }

    /// Powers the base domain on; returns `false` if that fails.
    pub fn base_on(&mut self) -> bool {
        if !matches!(self.state, State::AllOff | State::FaultOff) {
            return true;
        }
        self.state = State::BaseWait;
        if !self.poll(rows::TOP_REGISTER) || !self.poll(rows::BASE_REGISTER) {
            self.state = State::FaultOff;
            return false;
        }
        self.state = State::BaseOn;
        self.changes += 1;
        rows::ARM.iter().for_each(|&(value, address)| self.touch(Touch::Store(value, address)));
        true
    }

    /// Starts a dispatch with the clusters it needs.
    pub fn start(&mut self, clusters: u32) -> bool {
        if !self.base_on() {
            return false;
        }
        let clusters = clusters.clamp(1, rows::CLUSTERS as u32);
        if matches!(self.state, State::BaseOn) {
            for k in 1..=u64::from(clusters) {
                if !self.poll(rows::BASE_REGISTER + 8 * k) {
                    self.state = State::FaultOff;
                    return false;
                }
            }
        }
        self.state = State::Clusters(clusters);
        self.touch(Touch::Perf);
        true
    }

    /// Ends a dispatch.
    pub fn end(&mut self) {
        if matches!(self.state, State::Clusters(_)) {
            self.state = State::IdleArmed;
        }
    }

    /// Advances idle time.
    pub fn idle(&mut self, ns: u64) {
        if self.persistent > 0
            || !self.managed
            || !self.gating
            || !matches!(self.state, State::IdleArmed | State::BaseOn)
        {
            return;
        }
        if ns >= self.hysteresis_ns {
            self.off();
        } else if ns >= rows::SHORT_GAP_NS {
            self.state = State::BaseOn;
        }
    }

    /// Powers everything off.
    pub fn off(&mut self) {
        if self.state != State::AllOff {
            self.state = State::AllOff;
            self.changes += 1;
        }
    }

    /// Turns the idle gate on or off.
    pub fn set_gating(&mut self, on: bool) {
        self.gating = on;
    }

    /// Modelled power in milliwatts: zero if all is off, and the sustained figure while clusters run.
    pub fn milliwatts(&self) -> u64 {
        match self.state {
            State::Clusters(_) => rows::SUSTAINED_MILLIWATTS,
            _ => 0,
        }
    }
}
