//! From a fleet to a Kubernetes cluster: which phases there are, the variables of their playbooks, and running them.
//!
//! ```text
//! facts of all hosts --host::preflight--> may they be converted?
//!        |----------- pod_networks --> who has which pod addresses
//!        +----------- variables ----> what the playbooks are rendered with
//! phases --> pipeline (plan, apply, reset) --> engine, one phase of one host at a time
//! ```
//!
//! Non-goals: several control planes, upgrades of Kubernetes, anything that runs in the cluster but CoreDNS and kube-proxy.

pub mod images;
pub mod kubeadm;
pub mod pod_networks;

pub use crate::host::preflight::existing;
