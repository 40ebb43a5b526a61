//! Tasks as each dialect prints them. A task of a committed call is a function of the commit alone, so that a request sent
//! again gets equal bytes; its data is, byte for byte, the object that the commit names.
//!
//! ```text
//! 0.1  {"id":I,"status":{"state":"completed"},"artifacts":[{"parts":[{"type":"data","data":OUTPUT}]}],"metadata":{…}}
//! 0.3  {"kind":"task","id":I,"contextId":C,"status":{…},"artifacts":[{"artifactId":"output","parts":[{"kind":"data",…}]}],…}
//! 1.0  {"id":I,"contextId":C,"status":{…},"artifacts":[{"artifactId":"output","parts":[{"data":OUTPUT,"mediaType":…}]}],…}
//! ```

use super::super::rpc::text_of;
use super::{Dialect, time};
use crate::canon::{Value, object};
use crate::event::{B16, hex};
use crate::service::{Answer, CallError, Caller, Past, Preview};

/// What was thought of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Working,
    Completed,
    Failed,
    InputRequired,
}

impl State {
    /// The word of a dialect.
    pub(super) fn word(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::Working, Dialect::V10) => "TASK_STATE_WORKING",
            (Self::Completed, Dialect::V10) => "TASK_STATE_COMPLETED",
            (Self::Failed, Dialect::V10) => "TASK_STATE_FAILED",
            (Self::InputRequired, Dialect::V10) => "TASK_STATE_INPUT_REQUIRED",
            (Self::Working, _) => "working",
            (Self::Completed, _) => "completed",
            (Self::Failed, _) => "failed",
            (Self::InputRequired, _) => "input-required",
        }
    }
}

/// Sixteen bytes as a UUID: 8-4-4-4-12 of their 32 digits.
pub(super) fn uuid(bytes: &B16) -> String {
    uuid_of(&bytes.to_string())
}

/// The same of 32 digits.
pub(super) fn uuid_of(digits: &str) -> String {
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// The bytes of a UUID in the one form that this server prints.
pub(super) fn parse_uuid(text: &str) -> Option<B16> {
    let bytes = B16::from_hex(&text.replace('-', ""))?;
    (uuid(&bytes) == text).then_some(bytes)
}

/// How tasks are printed for one caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Printer<'a> {
    pub(super) dialect: Dialect,
    pub(super) caller: &'a Caller,
    /// Whether artifacts are shown.
    pub(super) artifacts: bool,
}

impl Printer<'_> {
    /// The context of a session: a name for it, as public as its session events.
    pub(super) fn context(&self) -> String {
        uuid(self.caller.session())
    }

    fn invocation_id(&self, id: &str) -> Value {
        let episode = self.caller.episode().map_or("", |name| name.as_str());
        format!("a2a:{episode}:{id}").into()
    }

    /// The task of a committed call.
    pub(super) fn committed(&self, id: &str, answer: &Answer) -> String {
        let mut metadata = object([
            ("entry_index", answer.receipt.entry.into()),
            ("invocation_id", self.invocation_id(id)),
            ("world_ref", format!("sha256:{}", hex(&answer.receipt.leaf_hash)).into()),
            ("worldlog/receipt", answer.receipt.to_value()),
        ]);
        if let Value::Object(members) = &mut metadata {
            let mut put = |name: &str, text: &String| {
                members.insert(name.to_owned(), text.as_str().into());
            };
            if let Some(token) = &answer.token {
                put("worldlog/token", token);
            }
            // 0.1 clients know the status as one word.
            if let (Some(problem), Dialect::V01) = (&answer.problem, self.dialect) {
                put("worldlog/problem", problem);
            }
        }
        let status = self.status(id, State::Completed, Some(answer.at), answer.problem.as_deref());
        // Canonical bytes are UTF-8.
        let output = String::from_utf8_lossy(&answer.output);
        self.task(id, &status, Some(&output), &metadata)
    }

    /// The task of a call without an answer yet, or that will have none.
    pub(super) fn unanswered(&self, id: &str, past: &Past) -> Option<String> {
        let mut metadata = object([("invocation_id", self.invocation_id(id))]);
        let status = match past {
            Past::Open { .. } => self.status(id, State::Working, None, None),
            Past::Closed { invocation, verdict, records, at } => {
                if let Value::Object(members) = &mut metadata {
                    members.insert("worldlog/verdict".to_owned(), verdict.as_str().into());
                    let records = records.iter().map(|name| name.as_str().into()).collect();
                    members.insert("worldlog/records".to_owned(), Value::Array(records));
                }
                let text = CallError::Unconfirmed {
                    invocation: invocation.clone(),
                    records: records.clone(),
                };
                if let (Value::Object(members), Dialect::V01) = (&mut metadata, self.dialect) {
                    members.insert("worldlog/problem".to_owned(), text.to_string().into());
                }
                self.status(id, State::Failed, Some(*at), Some(&text.to_string()))
            }
            Past::None | Past::Committed { .. } => return None,
        };
        Some(self.task(id, &status, None, &metadata))
    }

    /// What a preview is answered with. It is no task: nothing was begun. 0.1 knows tasks only.
    pub(super) fn preview(&self, id: &str, preview: &Preview) -> String {
        let (told, context) = (preview.to_value(), self.context());
        let told = text_of(&told);
        let message_id = preview.token.as_deref().unwrap_or(&preview.plan);
        let message_id = text_of(&format!("preview-{message_id}").into());
        match self.dialect {
            Dialect::V01 => {
                let status = self.status(id, State::InputRequired, None, None);
                self.task(id, &status, Some(&told), &object([]))
            }
            Dialect::V03 => format!(
                r#"{{"kind":"message","messageId":{message_id},"contextId":"{context}","role":"agent","parts":[{{"kind":"data","data":{told}}}]}}"#
            ),
            Dialect::V10 => format!(
                r#"{{"message":{{"messageId":{message_id},"contextId":"{context}","role":"ROLE_AGENT","parts":[{{"data":{told},"mediaType":"application/json"}}]}}}}"#
            ),
        }
    }

    fn status(&self, id: &str, state: State, at: Option<u64>, text: Option<&str>) -> String {
        let mut status = object([("state", state.word(self.dialect).into())]);
        if let (Value::Object(members), false) = (&mut status, self.dialect == Dialect::V01) {
            if let Some(at) = at {
                members.insert("timestamp".to_owned(), time::print(at).into());
            }
            if let Some(text) = text {
                members.insert("message".to_owned(), self.message(id, text));
            }
        }
        text_of(&status)
    }

    /// A sentence for the agent. One task has one, so its id can be the task's.
    fn message(&self, id: &str, text: &str) -> Value {
        let v10 = self.dialect == Dialect::V10;
        let part = object([("text", text.into())]);
        let mut message = object([
            ("contextId", self.context().into()),
            ("messageId", format!("{id}-status").into()),
            ("role", if v10 { "ROLE_AGENT" } else { "agent" }.into()),
            ("taskId", id.into()),
        ]);
        if let (Value::Object(members), Value::Object(mut part)) = (&mut message, part) {
            if !v10 {
                members.insert("kind".to_owned(), "message".into());
                part.insert("kind".to_owned(), "text".into());
            }
            members.insert("parts".to_owned(), Value::Array(vec![Value::Object(part)]));
        }
        message
    }

    fn task(&self, id: &str, status: &str, data: Option<&str>, metadata: &Value) -> String {
        let (id, metadata) = (text_of(&id.into()), text_of(metadata));
        let context = self.context();
        let artifacts = match (data.filter(|_| self.artifacts), self.dialect) {
            (None, _) => String::new(),
            (Some(data), Dialect::V01) => {
                format!(r#""artifacts":[{{"parts":[{{"type":"data","data":{data}}}]}}],"#)
            }
            (Some(data), Dialect::V03) => format!(
                r#""artifacts":[{{"artifactId":"output","parts":[{{"kind":"data","data":{data}}}]}}],"#
            ),
            (Some(data), Dialect::V10) => format!(
                r#""artifacts":[{{"artifactId":"output","parts":[{{"data":{data},"mediaType":"application/json"}}]}}],"#
            ),
        };
        match self.dialect {
            Dialect::V01 => {
                format!(r#"{{"id":{id},"status":{status},{artifacts}"metadata":{metadata}}}"#)
            }
            Dialect::V03 => format!(
                r#"{{"kind":"task","id":{id},"contextId":"{context}","status":{status},{artifacts}"metadata":{metadata}}}"#
            ),
            Dialect::V10 => format!(
                r#"{{"id":{id},"contextId":"{context}","status":{status},{artifacts}"metadata":{metadata}}}"#
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_uuid, uuid_of};

    #[test]
    fn a_uuid_has_one_form() {
        let digits = "0123456789abcdef0123456789abcdef";
        let text = uuid_of(digits);
        assert_eq!(text, "01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(parse_uuid(&text).expect("it").to_string(), digits);
        for wrong in [digits, &text.to_uppercase(), &format!("{text}-"), &text[1..], ""] {
            assert!(parse_uuid(wrong).is_none(), "{wrong}");
        }
    }
}
