//! Behaviours by id: each test is named after its row.

mod a_dispatch;
mod b_open;
mod c_programs;
mod d_submit;
mod e_schedule;
mod f_firmware;
mod g_dart;
mod i_power;
mod j_e5rt;
#[cfg(target_os = "linux")]
mod k_broker;
#[cfg(target_os = "linux")]
mod l_book;
mod m_path;
mod n_in_place;
mod nets;
mod stress;
mod units {
    //! Tests of single modules; the tree mirrors that of `src/`.

    mod broker {
        #[cfg(target_os = "linux")]
        mod service;
    }
    mod driver {
        mod balancer;
    }
    mod os {
        #[cfg(target_os = "linux")]
        mod linux;
        mod shared;
        mod support;
    }
}
