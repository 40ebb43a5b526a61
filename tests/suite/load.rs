//! Many clients, slow ones and dead ones: each is bounded, and none stops another.

use crate::support::{World, exchange, read_answer, request};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use worldlog::limits::{BODIES_BYTES_MAX, SMALL_BODY_BYTES_MAX};

/// Bytes of the largest body of MCP.
const LARGEST: usize = 4 * 1024 * 1024;

fn runtime() -> tokio::runtime::Runtime {
    // Both ends of each connection are here: more handles than a process has by default.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("as many handles as may be");
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("it")
}

fn read_call(path: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"ailang-read","arguments":{{"path":"{path}"}}}}}}"#
    )
}

fn post(address: SocketAddr, token: &str, body: &str) -> Vec<u8> {
    let bearer = format!("Authorization: Bearer {token}");
    let headers = [bearer.as_str(), "Content-Type: application/json", "Accept: application/json"];
    request(address, "POST /mcp", &headers, body)
}

#[test]
fn many_sessions_at_once_each_get_their_answers() {
    let world = World::new();
    let tokens: Vec<String> = (0..256).map(|n| world.agent(&format!("e{n}"), 10)).collect();
    runtime().block_on(async {
        let running = world.serve().await;
        let address = running.address;
        let calls = tokens.iter().map(|token| {
            let bytes = post(address, token, &read_call("none.txt"));
            tokio::spawn(async move {
                for _ in 0..3 {
                    let answer = exchange(address, &bytes).await.expect("an answer");
                    assert_eq!(answer.status, 200, "{answer:?}");
                    assert!(answer.text().contains("no such file"), "{answer:?}");
                }
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.expect("no panic");
        }
        running.stop().await;
    });
    assert_eq!(world.service.health().entries, 3 * 256);
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_its_call_is_in_the_log() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    world.file("big.txt", &"x".repeat(7 * 1024 * 1024));
    runtime().block_on(async {
        let running = world.serve().await;
        let mut socket = TcpStream::connect(running.address).await.expect("a connection");
        let bytes = post(running.address, &token, &read_call("big.txt"));
        socket.write_all(&bytes).await.expect("sent");
        // Once the call is committed, its answer waits for a reader longer than the server does.
        while world.service.health().entries == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let mut got = Vec::new();
        // A reset is an end too.
        let _ = socket.read_to_end(&mut got).await;
        let text = String::from_utf8_lossy(got.get(..1_000).unwrap_or(&got)).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect("a length").trim().parse().expect("a number");
        assert!(got.len() < length, "{} of {length} bytes", got.len());
        // Others are served meanwhile and afterwards.
        let bytes = post(running.address, &token, &read_call("hello.ail"));
        let answer = exchange(running.address, &bytes).await.expect("an answer");
        assert_eq!(answer.status, 200);
        running.stop().await;
    });
}

#[test]
fn large_bodies_have_bounded_room_and_small_ones_always_some() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    runtime().block_on(async {
        let running = world.serve().await;
        let address = running.address;
        let large = post(address, &token, &"x".repeat(LARGEST));
        let begun = large.len() - LARGEST + 2 * SMALL_BODY_BYTES_MAX;
        let mut slow = Vec::new();
        for _ in 0..BODIES_BYTES_MAX / LARGEST {
            let mut socket = TcpStream::connect(address).await.expect("a connection");
            socket.write_all(&large[..begun]).await.expect("begun");
            slow.push(socket);
        }
        // While they dawdle another large one may find no room, and is told so; a small one is served.
        let small = post(address, &token, &read_call("hello.ail"));
        let mut refused = false;
        for _ in 0..20 {
            let mut socket = TcpStream::connect(address).await.expect("a connection");
            // It may be refused before all is sent.
            let _ = socket.write_all(&large[..begun]).await;
            let answer = exchange(address, &small).await.expect("an answer");
            assert_eq!(answer.status, 200, "{answer:?}");
            let answer = read_answer(&mut socket).await;
            if let Some(answer) = answer.filter(|answer| answer.status == 503) {
                assert_eq!(answer.header("retry-after"), Some("1"));
                assert!(answer.text().contains("\"Crowded\""), "{answer:?}");
                refused = true;
                break;
            }
        }
        assert!(refused, "there was room for all");
        for mut socket in slow {
            let answer = read_answer(&mut socket).await.expect("an answer");
            assert_eq!(answer.status, 408, "{answer:?}");
        }
        // All room is back: as many as fit are read to their end at once, and found to be no JSON.
        let all = (0..BODIES_BYTES_MAX / LARGEST / 4).map(|_| {
            let large = large.clone();
            tokio::spawn(async move { exchange(address, &large).await.expect("an answer").status })
        });
        for one in all.collect::<Vec<_>>() {
            assert_eq!(one.await.expect("no panic"), 400);
        }
        running.stop().await;
    });
}

#[test]
fn connections_that_say_nothing_stop_nobody_for_long() {
    let world = World::new();
    let token = world.agent("ep1", 10);
    runtime().block_on(async {
        let running = world.serve().await;
        let mut silent = Vec::new();
        for _ in 0..1_100 {
            // Beyond the server's limit they wait in the kernel.
            silent.push(TcpStream::connect(running.address).await.expect("a connection"));
        }
        let bytes = post(running.address, &token, &read_call("hello.ail"));
        let answer = exchange(running.address, &bytes).await.expect("an answer");
        assert_eq!(answer.status, 200);
        drop(silent);
        running.stop().await;
    });
}
