//! Notification of the host by the engine: the ordered sequence on the fabric register that ends in a doorbell.

/// Bits of the fabric register.
pub mod bits {
    /// Uncorrectable error.
    pub const ERROR: u64 = 1 << 1;
    /// Link status; 1 before clocks may be gated.
    pub const LINK: u64 = 1 << 2;
    /// Secondary link; 0 before clocks may be gated.
    pub const SECOND_LINK: u64 = 1 << 4;
    /// Transaction rejected.
    pub const REJECT: u64 = 1 << 7;
    /// Window; open if clear.
    pub const WINDOW: u64 = 1 << 39;
}

/// A step of the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Interrupts masked.
    Mask,
    /// Window opened.
    Open,
    /// The doorbell's bit stored.
    Store(u32),
    /// Barrier.
    Barrier,
    /// Register sampled.
    Sample,
    /// Window closed.
    Close,
    /// Interrupts restored.
    Restore,
}

/// Outcome of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Delivered, after this number of rejected attempts.
    Delivered(u32),
    /// The bus reported an uncorrectable error.
    Fatal,
    /// Rejected [`TRIES`] times.
    Rejected,
}

/// Largest number of attempts of a notification.
pub const TRIES: u32 = 8;

/// Notification register, and the bus faults to inject.
#[derive(Debug)]
pub struct Fabric {
    /// Its value.
    pub register: u64,
    /// Number of further rejections to inject.
    pub reject: u32,
    /// True if the next store fails permanently.
    pub fail: bool,
    /// Number of delivered doorbell stores.
    pub delivered: u64,
}

impl Default for Fabric {
    fn default() -> Self {
        Fabric { register: 1 | bits::LINK | bits::WINDOW, reject: 0, fail: false, delivered: 0 }
    }
}

impl Fabric {
    /// Rings a host doorbell. The steps of every attempt are appended to `steps`.
    pub fn notify(&mut self, bit: u32, steps: &mut Vec<Step>) -> Outcome {
        for rejected in 0..TRIES {
            steps.extend([Step::Mask, Step::Open]);
            self.register &= !bits::WINDOW;
            steps.extend([Step::Store(bit), Step::Barrier, Step::Sample]);
            if std::mem::take(&mut self.fail) {
                self.register |= bits::ERROR;
            } else if self.reject > 0 {
                self.reject -= 1;
                self.register |= bits::REJECT;
            }
            let sample = self.register;
            // The sticky bits are cleared before the next attempt reads them.
            self.register = self.register & !(bits::ERROR | bits::REJECT) | bits::WINDOW;
            steps.extend([Step::Close, Step::Restore]);
            if sample & bits::ERROR != 0 {
                return Outcome::Fatal;
            }
            if sample & bits::REJECT == 0 {
                self.delivered += 1;
                return Outcome::Delivered(rejected);
            }
        }
        Outcome::Rejected
    }

    /// Gates the clocks if the link allows it, and clears its bits. Returns true if gated.
    pub fn gate(&mut self) -> bool {
        let may = self.register & bits::LINK != 0 && self.register & bits::SECOND_LINK == 0;
        if may {
            self.register &= !(1 | bits::LINK | bits::SECOND_LINK);
        }
        may
    }
}
