//! Text of others made safe to show: what a reader would not see, or would see in another order, is escaped.
//!
//! Apps, switches, files and operators choose text that is logged and printed. Invisible characters make two
//! different names look the same, and others move the cursor or reverse what follows.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether `char` is invisible, or changes how its neighbours are shown.
///
/// That is each character of the Unicode categories Cc, Cf, Cn, Co, Cs, Zl, Zp and Zs, space aside, as the
/// standard library's table has them (`core::unicode::printable`, by which `str::escape_debug` escapes). To them
/// come the characters that other categories have and that are shown as nothing (Unicode 16,
/// `Default_Ignorable_Code_Point` in `DerivedCoreProperties.txt`), and those that are shown as blanks.
pub fn is_hidden(char: char) -> bool {
    match char {
        ' '..='~' => false,
        '\u{34f}'                     // combining grapheme joiner
        | '\u{115f}'..='\u{1160}'     // fillers of Hangul
        | '\u{17b4}'..='\u{17b5}'     // inherent vowels of Khmer
        | '\u{180b}'..='\u{180f}'     // variation selectors and a separator of Mongolian
        | '\u{2800}'                  // a blank of Braille
        | '\u{3164}'                  // a filler of Hangul
        | '\u{fe00}'..='\u{fe0f}'     // variation selectors
        | '\u{ffa0}'                  // a filler of Hangul
        | '\u{fffc}'                  // in the place of an object
        | '\u{1d159}'                 // a note without a head
        | '\u{e0000}'..='\u{e0fff}' => true, // tags, and more variation selectors
        _ => {
            // In front stands a letter, as a first combining mark would be escaped for that alone.
            let mut text = [b'a', 0, 0, 0, 0];
            let size = 1 + char.encode_utf8(&mut text[1..]).len();
            let text = str::from_utf8(&text[..size]).unwrap_or_default();
            text.escape_debug().nth(1) == Some('\\')
        }
    }
}

/// `text` with each [hidden](is_hidden) character but the tab escaped as in Rust: `\u{200b}`, `\n`.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    let escape = |char: char, out: &mut String| out.extend(char.escape_debug());
    replaced(
        text,
        |char| char != '\t' && is_hidden(char),
        |char, out| {
            let before = out.len();
            escape(char, out);
            if out.get(before..) == Some(char.encode_utf8(&mut [0; 4])) {
                out.truncate(before); // the standard library would show it
                out.extend(char.escape_unicode());
            }
        },
    )
}

/// `text` with each [hidden](is_hidden) character but tab and newline escaped as in JSON: `\u200b`. In JSON, such
/// characters stand in strings alone, so this leaves JSON what it is.
#[must_use]
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    replaced(
        text,
        |char| !matches!(char, '\t' | '\n') && is_hidden(char),
        |char, out| {
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}"); // a String takes everything
            }
        },
    )
}

fn replaced(
    text: &str,
    is_replaced: impl Fn(char) -> bool,
    replace: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    let Some(first) = text.find(&is_replaced) else { return Cow::Borrowed(text) };
    let (clean, rest) = text.split_at(first);
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(clean);
    for char in rest.chars() {
        if is_replaced(char) {
            replace(char, &mut out);
        } else {
            out.push(char);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind, by Unicode's code point.
    const HIDDEN: [char; 32] = [
        '\0',
        '\n',
        '\r',
        '\u{1b}',
        '\u{7f}',
        '\u{9b}', // control
        '\u{ad}',
        '\u{61c}',
        '\u{200b}',
        '\u{200d}',
        '\u{200e}',
        '\u{202e}',
        '\u{2060}',
        '\u{2069}',
        '\u{feff}', // format
        '\u{fff9}',
        '\u{1d173}',
        '\u{e0001}',
        '\u{e0041}',
        '\u{e007f}', // format: annotations, music, tags
        '\u{2028}',
        '\u{2029}',
        '\u{a0}',
        '\u{2003}', // separators
        '\u{e000}',
        '\u{10fffd}',
        '\u{ffff}', // private use, none
        '\u{fe0f}',
        '\u{e0100}',
        '\u{34f}',
        '\u{3164}',
        '\u{2800}', // shown as nothing
    ];

    #[test]
    fn hidden_characters_are_escaped_each() {
        for char in HIDDEN {
            let text = format!("a{char}b");
            for shown in [shown(&text), shown_lines(&text)] {
                let kept = char == '\n' && shown.contains('\n');
                assert!(kept || shown.starts_with("a\\") && shown.is_ascii(), "{shown:?}");
            }
        }
        assert_eq!(shown("\x1b[31mred\r \u{202e}x\0"), "\\u{1b}[31mred\\r \\u{202e}x\\0");
        assert_eq!(shown("a\u{200b}\u{fe0f}\n"), "a\\u{200b}\\u{fe0f}\\n");
    }

    #[test]
    fn visible_text_is_left_alone() {
        let text = "a \"quoted\" \\ back\tslash, Zürich, e\u{301}, 東京, שלום, 한국, 🙂";
        assert!(matches!(shown(text), Cow::Borrowed(same) if same == text));
        assert!(matches!(shown_lines(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn json_says_the_same_when_its_hidden_characters_are_escaped() {
        let text: String = HIDDEN.iter().collect();
        let json = serde_json::to_string(&text).unwrap();
        let shown = shown_lines(&json);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }
}
