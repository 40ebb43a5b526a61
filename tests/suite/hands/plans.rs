//! Plans: the published digests, every refusal in its order, and the laws.

use worldlog::canon::{Value, object};
use worldlog::event::hex;
use worldlog::limits::PAYLOAD_BYTES_MAX;
use worldlog::merkle::hash::sha256;
use worldlog::transitions::{self, Demand, ParsedPlan, check_finish, check_laws};

use super::{fixtures, json, lines, text};

fn run_folder(folder: &str) {
    for (name, fixture) in fixtures(folder) {
        let (mut tool, mut args, mut plan, mut digest) = ("", "", "", None);
        for (keyword, rest) in lines(&fixture) {
            match keyword {
                "tool" => tool = rest,
                "args" => args = rest,
                "plan" => plan = rest,
                "sha256" => digest = Some(rest),
                _ => panic!("{name}: what is {keyword}?"),
            }
        }
        let transition = transitions::find(tool).unwrap();
        let made = transition.plan(&json(args));
        assert_eq!(text(&made), plan, "{name}");
        if let Some(digest) = digest {
            assert_eq!(hex(&sha256(&made.to_bytes())), digest, "{name}");
        }
        check_laws(&made, transition.declared()).unwrap();
    }
}

#[test]
fn published_plans() {
    run_folder("plan/published");
}

#[test]
fn our_plans() {
    run_folder("plan/ours");
}

#[test]
fn tools_stand_in_the_order_of_their_ids_and_say_what_they_are() {
    let ids: Vec<_> = transitions::all().iter().map(|transition| transition.tool()).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    assert_eq!(ids, sorted);
    assert!(ids.len() >= 9 && ids.starts_with(&["ailang-edit", "ailang-read", "ailang-write"]));
    let sources: std::collections::BTreeSet<_> =
        transitions::all().iter().map(|t| t.source()).collect();
    assert_eq!(sources.len(), ids.len(), "each tool has a source of its own");
    for transition in transitions::all() {
        let [declared] = transition.declared() else { panic!("one effect") };
        assert_eq!(transition.access(), Demand { cost: 0, ..*declared });
        assert_eq!((declared.scope, declared.cost), ("worktree", 1));
        assert!(transition.source().contains(&format!("tool: \"{}\"", transition.tool())));
        assert!(
            transition.source().contains("no leading \\\"-\\\""),
            "the shared checks are part of it"
        );
        assert!(transition.description().contains(declared.effect), "what a call costs");
        assert!(!transition.description().contains("  "), "{}", transition.description());
        assert_eq!((transition.engine(), transition.finish()), ("rust/1", false));
    }
    assert!(transitions::find("ailang-rea").is_none());
}

#[test]
fn schemas_close_their_arguments() {
    for transition in transitions::all() {
        let schema = transition.input_schema();
        assert_eq!(schema.get("type").unwrap(), &Value::from("object"));
        assert_eq!(schema.get("additionalProperties").unwrap(), &Value::from(false));
        let properties = schema.get("properties").unwrap().as_object().unwrap();
        let required = schema.get("required").unwrap().as_array().unwrap();
        let admitted = |name: &Value| properties.contains_key(name.as_str().unwrap());
        assert!(required.iter().all(admitted), "{}", transition.tool());
        for (name, property) in properties {
            let kind = property.get("type").unwrap().as_str().unwrap();
            assert!(["string", "integer", "boolean"].contains(&kind), "{name}");
            assert!(property.get("description").unwrap().as_str().is_some_and(|t| t.len() > 10));
            assert_eq!(property.get("minimum").is_some(), kind == "integer", "{name}");
        }
    }
    let required = |tool: &str| {
        let schema = transitions::find(tool).unwrap().input_schema();
        text(schema.get("required").unwrap())
    };
    assert_eq!(required("ailang-read"), r#"["path"]"#);
    assert_eq!(required("ailang-write"), r#"["path","content"]"#);
    assert_eq!(required("ailang-edit"), r#"["path","old_text","new_text"]"#);
    assert_eq!(required("workspace-list"), "[]");
    assert_eq!(required("workspace-move"), r#"["from","to"]"#);
    assert_eq!(required("workspace-search"), r#"["pattern"]"#);
}

/// What the plan of a tool makes of its arguments is what a handler takes, for all that the schema admits.
#[test]
fn what_a_plan_admits_a_handler_takes() {
    for transition in transitions::all() {
        let schema = transition.input_schema();
        let properties = schema.get("properties").unwrap().as_object().unwrap();
        let values = |property: &Value| -> Vec<Value> {
            match property.get("type").unwrap().as_str().unwrap() {
                "boolean" => vec![true.into(), false.into()],
                "integer" => {
                    vec![
                        property.get("minimum").unwrap().clone(),
                        property.get("maximum").unwrap().clone(),
                    ]
                }
                _ => match property.get("enum") {
                    Some(words) => words.as_array().unwrap().to_vec(),
                    None => vec!["a".into()],
                },
            }
        };
        for pick in [0, 1] {
            let args = properties.iter().map(|(name, property)| {
                let values = values(property);
                (name.clone(), values[pick % values.len()].clone())
            });
            let plan = transition.plan(&Value::Object(args.collect()));
            let Ok(ParsedPlan::Effect { demand, payload, .. }) =
                check_laws(&plan, transition.declared())
            else {
                panic!("{}: {}", transition.tool(), text(&plan))
            };
            worldlog::handlers::Effect::parse(demand.effect, &payload).unwrap();
        }
        let required = schema.get("required").unwrap().as_array().unwrap();
        let least = required.iter().map(|name| (name.as_str().unwrap().to_owned(), "a".into()));
        let plan = transition.plan(&Value::Object(least.collect()));
        assert!(plan.get("effects").unwrap().as_array().unwrap().len() == 1, "{}", text(&plan));
    }
}

#[test]
fn a_payload_is_at_most_a_mebibyte() {
    let write = transitions::find("ailang-write").unwrap();
    let args = |bytes: usize| object([("path", "x".into()), ("content", "a".repeat(bytes).into())]);
    let frame = r#"{"content":"","op":"write","path":"x"}"#.len();
    let fits = write.plan(&args(PAYLOAD_BYTES_MAX - frame));
    assert!(matches!(check_laws(&fits, write.declared()), Ok(ParsedPlan::Effect { .. })));
    let refused = write.plan(&args(PAYLOAD_BYTES_MAX - frame + 1));
    let Ok(ParsedPlan::Result(result)) = check_laws(&refused, write.declared()) else { panic!() };
    assert_eq!(
        text(&result),
        r#"{"ok":false,"refused":"the arguments take 1048577 bytes as a payload; the limit is 1048576"}"#
    );
}

#[test]
fn laws_of_a_plan() {
    let declared = [Demand { effect: "E", scope: "worktree", cost: 1 }];
    let effect = r#"{"cost":1,"effect":"E","id":"e1","payload":{"a":1},"scope":"worktree"}"#;
    let plan = |effects: &str, finish: &str, result: &str| {
        format!(
            r#"{{"effects":[{effects}],"finish":{finish},"plan":"world/effect-plan/v1","result":{result}}}"#
        )
    };
    let good = check_laws(&json(&plan(effect, "true", "null")), &declared).unwrap();
    let payload = json(r#"{"a":1}"#);
    let demand = declared[0];
    assert_eq!(good, ParsedPlan::Effect { id: "e1".to_owned(), demand, payload, finish: true });
    let good = check_laws(&json(&plan("", "false", r#"{"ok":true}"#)), &declared).unwrap();
    assert_eq!(good, ParsedPlan::Result(json(r#"{"ok":true}"#)));

    let changed = |from: &str, to: &str| plan(&effect.replace(from, to), "false", "null");
    let two = format!("{effect},{effect}");
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(PAYLOAD_BYTES_MAX));
    let cases = [
        ("shape", "[]".to_owned(), "a plan is an object"),
        ("L6", r#"{"world":1}"#.to_owned(), "plan has the member \"world\""),
        (
            "shape",
            plan("", "false", "null").replace("\"finish\"", "\"finis\""),
            "plan has the member \"finis\"",
        ),
        (
            "shape",
            plan("", "false", "null").replace(",\"result\":null", ""),
            "plan lacks the member \"result\"",
        ),
        ("shape", plan("", "1", "null"), "effects is an array, finish a boolean, plan a string"),
        (
            "shape",
            plan("", "false", "{}").replace("/v1", "/v2"),
            "plan is not \"world/effect-plan/v1\"",
        ),
        ("L1", plan(&two, "false", "null"), "2 effects; at most one"),
        ("shape", plan("1", "false", "null"), "an effect is an object"),
        ("shape", changed("\"cost\":1,", ""), "effect lacks the member \"cost\""),
        ("shape", changed("\"cost\"", "\"world\""), "effect has the member \"world\""),
        (
            "shape",
            changed("\"cost\":1", "\"cost\":1.5"),
            "id, effect and scope are strings, cost a whole number",
        ),
        ("L2", changed("\"e1\"", "\"\""), "an effect's id is [a-z0-9]{1,16}"),
        ("L2", changed("\"e1\"", "\"E1\""), "an effect's id is [a-z0-9]{1,16}"),
        ("L2", changed("\"e1\"", "\"abcdefghijklmnopq\""), "an effect's id is [a-z0-9]{1,16}"),
        ("L3", changed("\"E\"", "\"F\""), "(F, worktree, 1) is not declared"),
        ("L3", changed("worktree", "host"), "(E, host, 1) is not declared"),
        ("L3", changed("\"cost\":1", "\"cost\":0"), "(E, worktree, 0) is not declared"),
        ("L4", changed(r#"{"a":1}"#, "[1]"), "a payload is an object"),
        ("L4", changed(r#"{"a":1}"#, &long), "the payload is 1048584 bytes; the limit is 1048576"),
        ("L6", plan("", "false", r#"{"world":1}"#), "result has the member \"world\""),
        ("L7", plan(effect, "false", "{}"), "an effect and a result"),
        ("L7", plan("", "true", "{}"), "finish without an effect"),
        ("L7", plan("", "false", "null"), "neither an effect nor a result object"),
        ("L7", plan("", "false", "[]"), "neither an effect nor a result object"),
    ];
    for (law, plan, reason) in cases {
        let error = check_laws(&json(&plan), &declared).unwrap_err();
        assert_eq!(error.to_string(), format!("coordinator: effect plan violates {law}: {reason}"));
    }
}

#[test]
fn laws_of_a_finish_output() {
    assert_eq!(check_finish(&json(r#"{"ok":true}"#)), Ok(()));
    let law = |output: &str| check_finish(&json(output)).unwrap_err().law;
    assert_eq!([law("[]"), law(r#"{"world":1}"#), law(r#"{"effects":[]}"#)], ["shape", "L6", "L6"]);
}
