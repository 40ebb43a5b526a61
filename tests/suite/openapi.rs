//! `spec/openapi.json` against the server: each path answers with a documented status and the members that its schema names,
//! and each route of the server is documented.

use crate::support::{World, exchange, request};
use std::net::SocketAddr;
use worldlog::canon::{self, Value};
use worldlog::event::{Front, Role};
use worldlog::service::Call;

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

fn members(value: &Value) -> Vec<(&String, &Value)> {
    value.as_object().map(|members| members.iter().collect()).unwrap_or_default()
}

fn document() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/spec/openapi.json");
    let bytes = std::fs::read(path).expect("the document");
    canon::parse(&bytes).expect("JSON")
}

/// What does not fit the schema, with its place.
fn faults(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap_or("");
        let schemas = document.get("components").and_then(|c| c.get("schemas"));
        let named = schemas.and_then(|schemas| schemas.get(name)).expect("a schema of that name");
        return faults(document, named, value, at);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Number(_) => "integer",
    };
    let admitted: Vec<&str> = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(one) => one.as_str().into_iter().collect(),
        None => return Vec::new(),
    };
    if !admitted.contains(&kind) {
        return vec![format!("{at}: {kind}, not {admitted:?}")];
    }
    let mut found = Vec::new();
    if let Some(words) = schema.get("enum").and_then(Value::as_array)
        && !words.contains(value)
    {
        found.push(format!("{at}: none of {words:?}"));
    }
    for name in schema.get("required").and_then(Value::as_array).unwrap_or_default() {
        let name = name.as_str().expect("a name");
        if value.get(name).is_none() {
            found.push(format!("{at}: no {name}"));
        }
    }
    if let (Some(properties), Value::Object(own)) = (schema.get("properties"), value) {
        for (name, member) in own {
            match properties.get(name) {
                Some(schema) => {
                    found.extend(faults(document, schema, member, &format!("{at}.{name}")));
                }
                None => found.push(format!("{at}: {name} is not documented")),
            }
        }
    }
    if let (Some(schema), Value::Array(items)) = (schema.get("items"), value) {
        for item in items {
            found.extend(faults(document, schema, item, &format!("{at}[]")));
        }
    }
    found
}

async fn get(address: SocketAddr, path: &str, token: Option<&str>) -> crate::support::Answer {
    let bearer = token.map(|token| format!("Authorization: Bearer {token}"));
    let headers: Vec<&str> = bearer.iter().map(String::as_str).collect();
    exchange(address, &request(address, &format!("GET {path}"), &headers, "")).await.expect("it")
}

/// The path with its parameters' examples; all query parameters that have one.
fn concrete(path: &str, operation: &Value, own: &[(&str, String)]) -> String {
    let (mut path, mut query) = (path.to_owned(), Vec::new());
    for parameter in operation.get("parameters").and_then(Value::as_array).unwrap_or_default() {
        let Some(example) = parameter.get("example") else { continue };
        let mut example = match example {
            Value::String(text) => text.clone(),
            other => String::from_utf8(other.to_bytes()).expect("UTF-8"),
        };
        for (name, value) in own {
            example = example.replace(&format!("{{{name}}}"), value);
        }
        let name = text(parameter, "name");
        match text(parameter, "in") {
            "path" => path = path.replace(&format!("{{{name}}}"), &example),
            "query" => query.push(format!("{name}={example}")),
            _ => {}
        }
    }
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

/// What every path refuses: a session that is no good, and a parameter that it does not have.
async fn refused(address: SocketAddr, url: &str, revoked: &str, auditor: &str) -> Vec<String> {
    let unknown = format!("{url}{}nonsense=1", if url.contains('?') { '&' } else { '?' });
    let mut wrong = Vec::new();
    for (url, token, due) in [(url, revoked, 401), (url, "x", 401), (&unknown, auditor, 400)] {
        let status = get(address, url, Some(token)).await.status;
        if status != due {
            wrong.push(format!("{url}: {status} instead of {due}"));
        }
    }
    wrong
}

#[test]
fn every_path_answers_as_documented() {
    let document = document();
    let world = World::new();
    let token = world.agent("ep1", 10);
    let auditor = world.session(Role::Auditor, None, Vec::new(), 3_600);
    let revoked = world.agent("ep2", 10);
    world.service.revoke("ep2").expect("revoked");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let mut wrong = Vec::new();
    runtime.expect("it").block_on(async {
        let caller = world.service.authenticate(Some(&token)).expect("a caller");
        let args = canon::parse(br#"{"path":"a.txt","content":"x"}"#).expect("JSON");
        let call = Call::new(Front::Mcp, "ailang-write", args);
        let answer = world.service.invoke(&caller, call, None).await.expect("an answer");
        let own = [
            ("invocation", answer.receipt.invocation.clone()),
            ("object", answer.receipt.output.clone()),
        ];
        let running = world.serve().await;
        world.service.ledger().tend().expect("a checkpoint");
        for (path, item) in members(document.get("paths").expect("paths")) {
            // A stream has no end; its own tests read it.
            if path == "/v1/stream" {
                continue;
            }
            let operation = item.get("get").expect("only reads are documented");
            let url = concrete(path, operation, &own);
            let documented = operation.get("responses").expect("responses");
            for token in [None, Some(token.as_str()), Some(auditor.as_str())] {
                let answer = get(running.address, &url, token).await;
                let status = answer.status.to_string();
                let Some(response) = documented.get(&status) else {
                    wrong.push(format!("{url}: status {status} is not documented"));
                    continue;
                };
                let needed = !operation.get("security").is_none_or(|security| {
                    security
                        .as_array()
                        .is_some_and(|all| all.iter().any(|one| members(one).is_empty()))
                });
                let due = if token.is_none() && needed { "401" } else { "200" };
                let role = path == "/v1/episodes" && token != Some(auditor.as_str());
                if status != due && !role {
                    wrong.push(format!("{url}: status {status} instead of {due}"));
                }
                let content = response.get("content").expect("content");
                let media = answer.header("content-type").unwrap_or("");
                let Some(schema) = content.get(media) else {
                    wrong.push(format!("{url}: {media} is not documented"));
                    continue;
                };
                if let Some(schema) = schema.get("schema") {
                    let body = canon::parse(&answer.body).expect("JSON");
                    wrong.extend(
                        faults(&document, schema, &body, "")
                            .iter()
                            .map(|why| format!("{url}{why}")),
                    );
                }
            }
            assert!(documented.get("401").is_some() && documented.get("400").is_some(), "{url}");
            wrong.extend(refused(running.address, &url, &revoked, &auditor).await);
        }
        running.stop().await;
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_route_is_documented() {
    let document = document();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/server/provenance/mod.rs");
    let source = std::fs::read_to_string(source).expect("the table of routes");
    let paths = members(document.get("paths").expect("paths"));
    let mut count = 0;
    for line in source.lines() {
        let Some(rest) = line.trim().strip_prefix("(\"v1\", \"") else { continue };
        let name = rest.split('"').next().expect("a name");
        count += 1;
        let known = paths.iter().any(|(path, _)| {
            path.strip_prefix("/v1/").is_some_and(|rest| rest.split('/').next() == Some(name))
        });
        assert!(known, "/v1/{name} is not in the document");
    }
    assert!(count > 10, "the table of routes is not where it was");
}
