//! Finds the valid word that a misspelt one probably stands for.

/// Most letters that may be inserted, removed, replaced or swapped with the next one.
const MOST_ERRORS: usize = 2;

/// Returns the candidate that is most similar to `word`, if one is similar enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |candidate: &&str| strsim::osa_distance(word, candidate);
    // With three letters and two errors, any word would be similar.
    let letters = word.chars().count();
    let most = MOST_ERRORS.min(letters / 2);
    // The time of a comparison grows with both lengths, and a file may have a key of any length.
    let comparable = |it: &&str| it.chars().count().abs_diff(letters) <= most;
    let similar = candidates.into_iter().filter(comparable).map(|it| (distance(&it), it));
    similar.filter(|(distance, _)| *distance <= most).min().map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_similar_word_is_suggested() {
        let keys = ["stage", "state", "name"];
        for (word, meant) in [
            ("stag", Some("stage")),
            ("satge", Some("stage")),
            ("stat", Some("state")),
            ("nmae", Some("name")),
            ("limits", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, keys), meant, "{word}");
        }
    }

    #[test]
    fn long_word_is_compared_with_no_key() {
        let word = "x".repeat(1 << 20);
        let begin = std::time::Instant::now();
        assert_eq!(nearest(&word, ["listen"; 100]), None);
        assert!(begin.elapsed() < std::time::Duration::from_secs(5));
    }
}
