//! From a fleet to a Kubernetes cluster: which phases there are, the variables of their playbooks, and running them.
//!
//! ```text
//! facts of all hosts --pod_networks--> who has which pod addresses
//!        +------------- variables ---> what the playbooks are rendered with
//! phases, book --> pipeline (plan, apply), reset --> engine, one phase of one host at a time
//! ```
//!
//! Non-goals: several control planes, upgrades of Kubernetes, anything that runs in the cluster but CoreDNS and kube-proxy.

pub mod book;
pub mod images;
mod join;
mod kubeadm;
mod kubeconfig;
pub mod phases;
mod pipeline;
pub mod pod_networks;
mod reset;
mod session;
pub mod variables;

pub use kubeconfig::{KubeconfigError, kubeconfig};
pub use pipeline::{apply, plan};
pub use reset::reset;
pub use session::{
    Connected, FleetError, FleetOutcome, FleetPlan, HostEnd, HostError, HostOutcome, HostPlan, Session, control_plane,
};
