//! Connections to programs beside their control sockets: of operators, and for the apps' counters.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use control::kernel::KernelRequest;
use control::operator::{OperatorReply, OperatorRequest};
use control::query::{KernelQuery, KernelQueryReply};
use supervisor::effects::{Message, ProcessEvent, ProgramId};
use sys::channel::{Channel, ChannelError};
use sys::packets::Packets;

use super::{Processes, Running};

/// A request of an operator, with its descriptors.
pub(crate) type Request = (OperatorRequest, Vec<OwnedFd>);

impl Processes {
    /// Sends a program a message on behalf of an operator.
    ///
    /// The message is refused unless most of the control socket is free, so operators cannot crowd out the monitor's own
    /// messages.
    ///
    /// # Errors
    /// The message could not be sent.
    fn send_for_operator(
        &self,
        program: ProgramId,
        message: impl Into<Message>,
        fd: BorrowedFd<'_>,
    ) -> Result<(), ChannelError> {
        let running = self.running.get(&program);
        let control = running.and_then(|running| running.process.control.as_ref());
        if control.is_some_and(Channel::is_crowded) {
            return Err(ChannelError::WouldBlock);
        }
        control.ok_or(ChannelError::Closed)?.send(&message.into(), &[fd])
    }

    /// Connects an operator with a program by `message`, which the program gets with its end of the connection. Returns the
    /// operator's end.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase.
    pub(crate) fn connect(
        &self,
        program: ProgramId,
        message: impl Into<Message>,
    ) -> Result<OwnedFd, String> {
        let (ours, theirs) = Packets::pair().map_err(|error| error.to_string())?;
        match self.send_for_operator(program, message, theirs.into_fd().as_fd()) {
            Ok(()) => Ok(ours.into_fd()),
            Err(ChannelError::WouldBlock) => Err("too many operators connect to it".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Connects with the kernel for queries.
    ///
    /// # Errors
    /// Why there is no connection, as a phrase.
    pub(crate) fn connect_kernel(&self, kernel: ProgramId) -> Result<Channel, String> {
        let (ours, theirs) = Channel::pair().map_err(|error| error.to_string())?;
        match self.send_for_operator(kernel, KernelRequest::Operator, theirs.as_fd()) {
            Ok(()) => Ok(ours),
            Err(ChannelError::WouldBlock) => Err("too many operators connect to the kernel".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Asks the kernel for the apps' counters, over a connection that lasts as long as its process.
    pub(super) fn count(&mut self, kernel: ProgramId) -> Option<ProcessEvent> {
        if self.running.get(&kernel)?.counters.is_none() {
            let connection = self.connect_kernel(kernel);
            self.running.get_mut(&kernel)?.counters = connection.ok();
        }
        let running = self.running.get_mut(&kernel)?;
        let asked = running.counters.as_ref().map(|it| it.send(&KernelQuery::Apps, &[]));
        running.owes_counters = matches!(asked, Some(Ok(())));
        if running.owes_counters {
            return None;
        }
        running.counters = None;
        Some(ProcessEvent::NotCounted)
    }

    /// Receives a request of an operator that a program passes on.
    ///
    /// # Errors
    /// It has broken the protocol.
    pub(crate) fn receive_request(
        &mut self,
        program: ProgramId,
    ) -> Result<Option<Request>, ProcessEvent> {
        let Some(running) = self.running.get_mut(&program) else { return Ok(None) };
        let Some(requests) = &running.requests else { return Ok(None) };
        let error = match requests.receive_immediate::<OperatorRequest>() {
            Ok(received) => return Ok(Some(received)),
            Err(ChannelError::WouldBlock) => return Ok(None),
            Err(error) => error,
        };
        running.requests = None;
        match error {
            ChannelError::Closed => Ok(None), // it ends
            error => {
                let why = format!("it broke the protocol of its admin channel: {error}");
                Err(ProcessEvent::Broken(why))
            }
        }
    }

    /// Answers a request that a program passed on.
    ///
    /// # Errors
    /// It does not read the answers.
    pub(crate) fn reply(
        &mut self,
        program: ProgramId,
        reply: &OperatorReply,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ProcessEvent> {
        let Some(running) = self.running.get_mut(&program) else { return Ok(()) };
        let Some(Err(error)) = running.requests.as_ref().map(|it| it.send(reply, fds)) else {
            return Ok(());
        };
        running.requests = None;
        Err(ProcessEvent::Broken(format!("it does not read its admin channel: {error}")))
    }
}

impl Running {
    /// Receives the kernel's counters.
    pub(super) fn counted(&mut self) -> Option<ProcessEvent> {
        let received = self.counters.as_ref()?.receive_alone::<KernelQueryReply>();
        if matches!(received, Err(ChannelError::WouldBlock)) {
            return None;
        }
        let was_asked = std::mem::take(&mut self.owes_counters);
        match received {
            Ok(KernelQueryReply::Apps(apps)) if was_asked => Some(ProcessEvent::Counted(apps)),
            _ => {
                self.counters = None;
                was_asked.then_some(ProcessEvent::NotCounted)
            }
        }
    }
}
