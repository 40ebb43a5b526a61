//! `rmcp`, the Rust client of the protocol's authors: with the handshake, and with the newest revision.

use crate::support::World;
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig, ProtocolVersion};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use std::net::SocketAddr;
use worldlog::event::Role;
use worldlog::service::GrantSpec;
use worldlog::store::memory::Fault;

type Client = RunningService<RoleClient, ClientConfig>;

async fn connect(address: SocketAddr, token: &str, mode: ClientLifecycleMode) -> Client {
    let config = StreamableHttpClientTransportConfig::with_uri(format!("http://{address}/mcp"))
        .auth_header(token);
    let transport = StreamableHttpClientTransport::from_config(config);
    ClientConfig::default().serve_with_lifecycle(transport, mode).await.expect("connected")
}

async fn call(
    client: &Client,
    tool: &'static str,
    args: &str,
) -> Result<CallToolResult, ServiceError> {
    let args = serde_json::from_str(args).expect("an object");
    client.call_tool(CallToolRequestParams::new(tool).with_arguments(args)).await
}

/// What an agent is told: the structured object, and the second block.
fn told(result: &CallToolResult) -> (String, String) {
    let text = |index: usize| {
        let block = result.content.get(index).and_then(|block| block.as_text());
        block.map(|block| block.text.clone()).unwrap_or_default()
    };
    let structured = result.structured_content.as_ref().map(ToString::to_string);
    let first: serde_json::Value = serde_json::from_str(&text(0)).expect("JSON");
    assert_eq!(Some(&first), result.structured_content.as_ref());
    (structured.unwrap_or_default(), text(1))
}

#[test]
fn it_lists_calls_and_sees_each_failure_for_what_it_is() {
    let newest = ProtocolVersion::V_2026_07_28;
    let modes = [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover { preferred_versions: vec![newest.clone()] },
        ClientLifecycleMode::Auto { preferred_versions: vec![newest], legacy_version: None },
    ];
    for mode in modes {
        let world = World::new();
        let grants = ["Workspace.Read=worktree:2", "Workspace.Write=worktree:9"];
        let grants = grants.map(|text| GrantSpec::parse(text).expect("a grant")).to_vec();
        let token = world.session(Role::Agent, Some("ep1"), grants, 3_600);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("it").block_on(async {
            let running = world.serve().await;
            let client = connect(running.address, &token, mode.clone()).await;
            let tools = client.list_all_tools().await.expect("a list");
            assert!(tools.iter().any(|tool| tool.name == "ailang-read"), "{mode:?}");

            let done = call(&client, "ailang-read", r#"{"path":"hello.ail"}"#).await.expect("it");
            let (object, more) = told(&done);
            assert!(done.is_error != Some(true) && object.contains("module hello"), "{object}");
            assert_eq!(more, "");
            let refused = call(&client, "ailang-read", r#"{"path":"../x"}"#).await.expect("it");
            let (object, more) = told(&refused);
            assert!(refused.is_error == Some(true) && object.contains("refused"), "{object}");
            assert!(more.contains("nothing was spent"), "{more}");
            let absent = call(&client, "ailang-read", r#"{"path":"nope.ail"}"#).await.expect("it");
            assert!(told(&absent).1.contains("no such file or directory"));
            let denied = call(&client, "ailang-read", r#"{"path":"hello.ail"}"#).await.expect("it");
            assert!(denied.is_error == Some(true) && told(&denied).1.starts_with("denied:budget"));
            let unknown = call(&client, "no-such-tool", "{}").await.expect_err("unknown");
            assert!(unknown.to_string().contains("unknown tool"), "{unknown}");
            world.store.fail_at(1, Fault::NotCommitted);
            let failed = call(&client, "ailang-write", r#"{"path":"a","content":"x"}"#).await;
            let ServiceError::McpError(error) = failed.expect_err("the host failed") else {
                panic!("another kind of error");
            };
            assert_eq!((error.code.0, &*error.message), (-32603, "host callback failed"));
            let data = error.data.expect("structured data");
            assert_eq!(data["safe_to_repeat"], true);
            client.cancel().await.expect("closed");
            running.stop().await;
        });
    }
}
