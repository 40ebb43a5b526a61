//! Deadlines of the plan, the effect and the client, and stopping an episode now.
//!
//! The runtime has one thread for tasks and one for what blocks. A test that holds the latter holds the handler.

use super::{bodies, caller, check, content, spent, write};
use crate::support::World;
use crate::support::slow::Slow;
use std::sync::mpsc;
use std::time::Duration;
use worldlog::event::{Body, ClosedBy, Verdict};
use worldlog::limits::{EFFECT_MS_MAX, INVOCATION_MS_MAX, PLAN_MS_MAX};
use worldlog::service::{Answer, CallError, Phase, Progress};

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(1).build().expect("a runtime")
}

/// Moves the clock. It stands still only meanwhile: a clock that stands jumps to the next deadline as soon as the runtime
/// waits for another thread.
async fn pass(ms: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(ms)).await;
    tokio::time::resume();
}

/// Lets everything run that can.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Has a write wait in front of its handler, does `meanwhile`, and lets it go on.
fn held<F: Future<Output = ()>>(
    world: &World,
    token: &str,
    meanwhile: impl FnOnce() -> F,
) -> Result<Answer, CallError> {
    // The first call of an episode takes its lock file in a thread; it is not to come between.
    super::invoke(world, token, super::read("hello.ail")).expect("an answer");
    runtime().block_on(async {
        let (release, released) = mpsc::channel::<()>();
        let released = std::sync::Mutex::new(Some(released));
        let (recorded, reached) = tokio::sync::oneshot::channel();
        let recorded = std::sync::Mutex::new(Some(recorded));
        // Told right before the handler is queued: so this stands before it in the queue of what blocks.
        let progress: Progress = Box::new(move |phase| {
            if phase == Phase::Recorded {
                let released = released.lock().expect("no panic").take().expect("once");
                tokio::task::spawn_blocking(move || released.recv().is_err());
                let recorded = recorded.lock().expect("no panic").take().expect("once");
                recorded.send(()).expect("somebody waits");
            }
        });
        let (service, caller) = (world.service.clone(), caller(world, token));
        let call = write("a.txt", "mine");
        let calling =
            tokio::spawn(async move { service.invoke(&caller, call, Some(progress)).await });
        reached.await.expect("recorded");
        settle().await;
        meanwhile().await;
        settle().await;
        drop(release);
        calling.await.expect("no panic")
    })
}

fn closures(world: &World) -> Vec<(Verdict, ClosedBy)> {
    let closure = |body| match body {
        Body::Closure(closure) => Some((closure.verdict, closure.by)),
        _ => None,
    };
    bodies(world).into_iter().filter_map(closure).collect()
}

#[test]
fn an_effect_that_did_not_begin_to_change_anything_is_stopped_at_its_deadline() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    world.file("a.txt", "theirs");
    let error = held(&world, &token, || pass(EFFECT_MS_MAX + 1)).expect_err("stopped");
    assert!(matches!(error, CallError::Stopped { late: true, .. }), "{error}");
    assert!(error.fate().safe_to_repeat && error.fate().records.len() == 1);
    assert_eq!(
        content(&world, "a.txt").as_deref(),
        Some("theirs"),
        "no effect outlives its closure"
    );
    assert_eq!(closures(&world), [(Verdict::NotHappened, ClosedBy::Deadline)]);
    assert_eq!((check(&world).entries(), spent(&world)), (1, (0, 0)));
    super::invoke(&world, &token, write("a.txt", "mine")).expect("the episode goes on");
    check(&world.crash());
}

#[test]
fn an_operator_can_stop_what_runs() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    let service = world.service.clone();
    let freeze = || async move {
        let frozen = std::thread::spawn(move || service.freeze(Some("ep1"), true, true));
        frozen.join().expect("no panic").expect("frozen");
    };
    let error = held(&world, &token, freeze).expect_err("stopped");
    assert!(matches!(error, CallError::Stopped { late: false, .. }), "{error}");
    assert_eq!(content(&world, "a.txt"), None);
    let error = super::invoke(&world, &token, write("a.txt", "x")).expect_err("frozen");
    assert!(matches!(error, CallError::Closed(_)), "{error}");
    assert_eq!(
        super::invoke(&world, &token, super::call("ailang-read", "{}"))
            .map(|a| a.problem.is_some()),
        Ok(true),
        "a refusal has no effect"
    );
    world.service.freeze(Some("ep1"), false, false).expect("thawed");
    super::invoke(&world, &token, write("a.txt", "x")).expect("an answer");
    world.service.freeze(None, true, false).expect("frozen everywhere");
    assert!(super::invoke(&world, &token, write("a.txt", "y")).is_err());
    world.service.freeze(None, false, false).expect("thawed");
    assert!(world.service.freeze(Some("nowhere"), true, false).is_err());
    check(&world);
}

#[test]
fn an_effect_within_its_time_is_awaited() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    let answer = held(&world, &token, || pass(EFFECT_MS_MAX - 2_000)).expect("an answer");
    assert_eq!((answer.problem, content(&world, "a.txt").as_deref()), (None, Some("mine")));
    check(&world);
}

#[test]
fn a_call_that_waits_too_long_for_its_episode_did_not_begin() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    let (service, waiting) = (world.service.clone(), caller(&world, &token));
    let error = std::cell::RefCell::new(None);
    let wait = || async {
        // The effect ahead is closed at its deadline, but its thread is held: the episode stays its own.
        let call = async { service.invoke(&waiting, write("b.txt", "x"), None).await };
        let passing = async {
            settle().await;
            pass(INVOCATION_MS_MAX + 1).await;
        };
        let (said, ()) = tokio::join!(call, passing);
        *error.borrow_mut() = Some(said);
    };
    let first = held(&world, &token, wait);
    assert_eq!(error.into_inner(), Some(Err(CallError::Waited)));
    assert!(first.is_err(), "{first:?}");
    assert_eq!(content(&world, "b.txt"), None);
    super::invoke(&world, &token, write("b.txt", "x")).expect("the episode goes on");
    check(&world);
}

#[test]
fn a_plan_that_takes_too_long_commits_nothing() {
    static SLOW: Slow = Slow::new();
    let world = World::with_tools(&[&SLOW]);
    let token = world.agent("ep1", 10);
    super::invoke(&world, &token, super::read("hello.ail")).expect("an answer");
    let held = SLOW.hold();
    let said = runtime().block_on(async {
        let (service, caller) = (world.service.clone(), caller(&world, &token));
        let call = super::call("test-slow", r#"{"path":"hello.ail"}"#);
        let calling = tokio::spawn(async move { service.invoke(&caller, call, None).await });
        settle().await;
        pass(PLAN_MS_MAX + 1).await;
        let said = calling.await.expect("no panic");
        drop(held);
        said
    });
    assert_eq!(said, Err(CallError::PlanTimedOut));
    assert_eq!(check(&world).entries(), 1);
}
