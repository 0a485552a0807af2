//! Notices when a client that stays connected loses what it was admitted by: a token, a session or a certificate.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use control::northbound::Credentials;
use tokio::sync::watch;

/// How long after the end of its validity a credential is checked again, because some are valid until a second is over.
const SLACK: Duration = Duration::from_millis(50);

/// The longest time between two looks at the clock, which may have been set meanwhile.
const LOOK: Duration = Duration::from_secs(15);

/// When a valid credential expires, if it does; or `None` if it is not valid.
type Validity = Option<Option<SystemTime>>;

/// The standing of a client that stays connected.
pub(crate) struct Standing {
    check: Box<dyn Fn() -> Validity + Send>,
    /// Changes whenever a credential may have been revoked.
    changed: watch::Receiver<Arc<Credentials>>,
    expires: Option<SystemTime>,
    /// Whether a check has failed. A client that was refused once is not admitted again.
    is_over: bool,
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl Standing {
    /// Watches by `check`, at first at once and then whenever `changed` says so or the credential expires.
    pub(crate) fn new(
        check: impl Fn() -> Validity + Send + 'static,
        mut changed: watch::Receiver<Arc<Credentials>>,
    ) -> Self {
        // A change since the client was admitted would be missed otherwise.
        changed.mark_changed();
        Self { check: Box::new(check), changed, expires: None, is_over: false }
    }

    /// For a client whose standing does not end: it is never checked.
    pub(crate) fn lasting(changed: watch::Receiver<Arc<Credentials>>) -> Self {
        Self { check: Box::new(|| Some(None)), changed, expires: None, is_over: false }
    }

    /// Whether the client is still admitted.
    pub(crate) fn holds(&mut self) -> bool {
        let has_expired = self.expires.is_some_and(|end| SystemTime::now() >= end);
        let must_check = has_expired || self.changed.has_changed().unwrap_or(true);
        if must_check && !self.is_over {
            self.changed.borrow_and_update();
            let validity = (self.check)();
            self.is_over = validity.is_none();
            self.expires = validity.flatten();
        }
        !self.is_over
    }

    /// Waits until the client is not admitted any more. It may be cancelled and called again.
    pub(crate) async fn ended(&mut self) {
        while self.holds() {
            let left = self.expires.map(|end| end.duration_since(SystemTime::now()));
            let left = left.map_or(LOOK, |left| (left.unwrap_or_default() + SLACK).min(LOOK));
            if tokio::time::timeout(left, self.changed.changed()).await.is_ok() {
                // It counts as seen now, and `holds` has to see it.
                self.changed.mark_changed();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn revoked_credential_ends_at_once_and_others_go_on() {
        let sender = watch::Sender::new(Arc::new(Credentials::default()));
        let by_key = |key: &'static str| {
            let credentials = sender.subscribe();
            let check = move || (credentials.borrow().session_key != key).then_some(None);
            Standing::new(check, sender.subscribe())
        };
        let (mut one, mut other) = (by_key("one"), by_key("other"));
        runtime().block_on(async {
            let wait = Duration::from_millis(30);
            assert!(tokio::time::timeout(wait, one.ended()).await.is_err());
            // While the client waits.
            let revoke = async {
                tokio::time::sleep(wait).await;
                let one = Credentials { session_key: "one".into(), ..Credentials::default() };
                sender.send_replace(Arc::new(one));
            };
            let ended = tokio::time::timeout(wait * 20, one.ended());
            tokio::join!(ended, revoke).0.unwrap();
            assert!(!one.holds() && other.holds());
            assert!(tokio::time::timeout(wait, other.ended()).await.is_err());
        });
    }

    #[test]
    fn credential_ends_when_it_expires_and_is_checked_no_more_than_necessary() {
        let sender = watch::Sender::new(Arc::new(Credentials::default()));
        let end = SystemTime::now() + Duration::from_millis(200);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let check = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            (SystemTime::now() <= end).then_some(Some(end))
        };
        let mut standing = Standing::new(check, sender.subscribe());
        assert!((0..100).all(|_| standing.holds()));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let begin = Instant::now();
        runtime().block_on(standing.ended());
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
        assert!(SystemTime::now() > end && !standing.holds());
    }

    #[test]
    fn lasting_standing_outlives_every_change() {
        let sender = watch::Sender::new(Arc::new(Credentials::default()));
        let mut standing = Standing::lasting(sender.subscribe());
        sender.send_replace(Arc::new(Credentials::default()));
        assert!(standing.holds());
        runtime().block_on(async {
            let ended = tokio::time::timeout(Duration::from_millis(30), standing.ended());
            assert!(ended.await.is_err());
        });
    }

    #[test]
    fn change_before_the_first_look_is_noticed() {
        let sender = watch::Sender::new(Arc::new(Credentials::default()));
        let mut standing = Standing::new(|| None, sender.subscribe());
        assert!(!standing.holds());
    }
}
