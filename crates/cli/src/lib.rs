//! `rosemary`, the operator's command, and the lab that its demo and the system tests run in.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`up`] | `rosemary up`: becomes the resource monitor |
//! | [`status`] | `rosemary status`: asks a running Rosemary and prints what it says |
//! | [`pki`] | `rosemary pki`: makes keys and certificates for TLS |
//! | [`switches`], [`apps`] | `rosemary switches`, `rosemary apps`: the same for one of them, in full |
//! | [`top`] | `rosemary top`: how much each program uses, live |
//! | [`logs`] | `rosemary logs`, `rosemary app logs`: what programs have logged |
//! | [`doctor`] | `rosemary doctor`: tries what wall there can be around an app, and what keeps its limits |
//! | [`flows`] | `rosemary flows`: what is in a switch's tables |
//! | [`app`], [`scaffold`] | `rosemary app`; `rosemary app new`: makes an app to begin with |
//! | [`packages`] | `rosemary app build`, `sign`, `install`, ...; `rosemary key`: an app's way to operators |
//! | [`demo`] | `rosemary demo`: shows it working on this machine |
//! | [`ofp`] | `rosemary ofp`: shows and checks OpenFlow messages |
//! | [`lab`] | a machine in miniature, for the demo and the tests |
//! | [`ask`] | the client's side of the admin socket, the kernel's and the log's |
//! | [`say`] | the only place that writes to standard output and standard error |
//!
//! Data goes to standard output, everything else to standard error; the exit code is 0 for done, 1
//! for refused or failed, 2 for a command line that makes no sense.
//!
//! What it will never do: hold state, serve anybody, or do anything to a running Rosemary but ask.

#![forbid(unsafe_code)]

pub mod app;
pub mod apps;
pub mod ask;
pub mod demo;
pub mod doctor;
pub mod flows;
pub mod lab;
pub mod logs;
pub mod ofp;
pub mod packages;
pub mod pki;
pub mod say;
pub mod scaffold;
pub mod status;
pub mod switches;
mod table;
pub mod top;
pub mod up;
