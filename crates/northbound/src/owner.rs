//! Sends requests to the apps that own flows for people: `operator` and `ofctl`.

use control::change::{AppVerb, Change, ChangeRequest};
use sdk::services::Service;
use sdk::services::operator::{Answer, Refused, Request};
use sdk::services::user::for_user;
use view::client::ClientError;

use crate::problem::Problem;
use crate::state::Api;

/// Most bytes of a reply of a switch.
const MOST_BYTES: usize = 64 << 20;

/// Requests a change for `who`, or the owner's numbers. The owner writes the audit record. For blocking threads.
///
/// # Errors
/// The owner does not run or does not answer.
pub(crate) fn request(
    api: &Api,
    service: Service,
    who: &str,
    request: &Request<'_>,
) -> Result<Answer, ClientError> {
    let request = for_user(who, &request.encode());
    let answer = api.ask_service(service, |owner| owner.request(&request))?;
    Answer::decode(&answer).ok_or(ClientError::Unexpected { peer: service.name() })
}

/// Asks a switch, and returns the messages of its reply, one behind the other. For blocking threads.
///
/// # Errors
/// The owner does not run or does not answer. The inner error is the owner's refusal.
pub(crate) fn ask(
    api: &Api,
    service: Service,
    dpid: u64,
    message: &[u8],
) -> Result<Result<Vec<u8>, Answer>, ClientError> {
    let request = Request::Ask { dpid, message };
    let mut reply = Ok(Vec::new());
    api.ask_service(service, |owner| {
        owner.request_all(&request.encode(), |answer| {
            match (Answer::decode(answer), &mut reply) {
                (Some(Answer::Messages(bytes)), Ok(all)) if all.len() < MOST_BYTES => {
                    all.extend(bytes);
                }
                (Some(Answer::Messages(_)), Ok(_)) => {
                    let (refused, why) = (Refused::Unavailable, "the reply is too long".to_owned());
                    reply = Err(Answer::Refused { refused, why });
                }
                (Some(Answer::Messages(_)), Err(_)) => {}
                (Some(other), _) => reply = Err(other),
                (None, _) => {
                    let (refused, why) = (Refused::Malformed, "an answer is malformed".to_owned());
                    reply = Err(Answer::Refused { refused, why });
                }
            }
            true
        })
    })?;
    Ok(reply)
}

/// Has the monitor start the app `operator`, in the name of `who`. For blocking threads.
///
/// # Errors
/// The monitor refuses.
pub(crate) fn start(api: &Api, who: &str) -> Result<(), ClientError> {
    let change = Change::App { app: Service::Operator.name().into(), verb: AppVerb::Enable };
    let request = ChangeRequest { change, confirmed: false };
    let report = api.ask_monitor(|monitor| monitor.change_for(who, request))?;
    let id = report.id;
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let is_there = api.ask_service(Service::Operator, |_| Ok(())).is_ok();
        if is_there || std::time::Instant::now() > until {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        let _ = api.ask_monitor(|monitor| monitor.change_so_far(id));
    }
}

/// The problem of a refused request.
pub(crate) fn problem(refused: Refused, why: String) -> Problem {
    match refused {
        Refused::Malformed => {
            Problem::invalid(why, "see /api/v1/openapi.json for the members of the body")
        }
        Refused::NotGranted => Problem::forbidden(why, "see `rosemary logs app operator`"),
        Refused::NoSwitch => {
            Problem::not_found(why, "`rosemary switches` shows the connected ones")
        }
        Refused::Unavailable => Problem::unavailable(why, "try again in a moment"),
        Refused::BadReply => Problem::bad_answer(why, "update the software of the switch"),
        _ => Problem::conflict(why, "change the request as the reason says"),
    }
}
