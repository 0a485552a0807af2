//! Escapes text of others for display: invisible characters, and characters that reorder their neighbours. Writes bytes as
//! hexadecimal digits.
//!
//! Apps, switches, files and operators choose text that Rosemary logs and prints. With invisible characters two names
//! can look the same. Other characters move the cursor or reverse the text behind them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Writes bytes as hexadecimal digits, two for each.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a String takes everything
        text
    })
}

/// Whether `char` is invisible, or changes the display of its neighbours.
///
/// These are the characters of the Unicode categories Cc, Cf, Cn, Co, Cs, Zl, Zp and Zs except the space, according to
/// the table of the standard library (`core::unicode::printable`, which `str::escape_debug` uses). Further ones are
/// the characters of other categories without a glyph (Unicode 16, `Default_Ignorable_Code_Point` in
/// `DerivedCoreProperties.txt`), and characters with a blank glyph.
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
        | '\u{fffc}'                  // object replacement character
        | '\u{1d159}'                 // a note without a head
        | '\u{e0000}'..='\u{e0fff}' => true, // tags, and more variation selectors
        _ => {
            // Behind a letter, because `escape_debug` escapes every combining mark at the start of a text.
            let mut text = [b'a', 0, 0, 0, 0];
            let size = 1 + char.encode_utf8(&mut text[1..]).len();
            let text = str::from_utf8(&text[..size]).unwrap_or_default();
            text.escape_debug().nth(1) == Some('\\')
        }
    }
}

/// `text` with each [hidden](is_hidden) character except the tab escaped in the notation of Rust: `\u{200b}`, `\n`.
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
                out.truncate(before); // the standard library does not escape this one
                out.extend(char.escape_unicode());
            }
        },
    )
}

/// `text` with each [hidden](is_hidden) character except tab and newline escaped in the notation of JSON: `\u200b`.
/// JSON contains such characters only in strings, so the result of escaping JSON is equivalent JSON.
#[must_use]
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    replaced(
        text,
        |char| !matches!(char, '\t' | '\n') && is_hidden(char),
        |char, out| {
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}"); // writing to a String cannot fail
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
    fn hidden_characters_are_escaped() {
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
    fn visible_text_is_unchanged() {
        let text = "a \"quoted\" \\ back\tslash, Zürich, e\u{301}, 東京, שלום, 한국, 🙂";
        assert!(matches!(shown(text), Cow::Borrowed(same) if same == text));
        assert!(matches!(shown_lines(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn escaped_json_has_the_same_content() {
        let text: String = HIDDEN.iter().collect();
        let json = serde_json::to_string(&text).unwrap();
        let shown = shown_lines(&json);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }
}
