//! Reads names from the URIs in certificates, and compares text in certificates by its letters and digits alone, so that a misspelt name
//! is recognised as one.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Most characters of a name that an error shows.
const MAX_SHOWN: usize = 100;

/// The depth of nested percent-encodings that is decoded.
const MAX_ENCODINGS: usize = 3;

/// A kind of names in certificates.
pub(crate) struct Kind<T> {
    /// Whether a URI could be meant as such a name, correctly spelt or not.
    pub(crate) resembles: fn(&str) -> bool,
    /// Reads a URI that is exactly such a name.
    pub(crate) parse_exactly: fn(&str) -> Option<T>,
    /// The letters of each name's beginning.
    pub(crate) letters: &'static [u8],
    /// The error if these letters are anywhere else in a certificate.
    pub(crate) elsewhere: &'static str,
}

/// Why the names in a certificate cannot be read.
pub(crate) enum NamesFault {
    /// It is not a certificate.
    Unreadable,
    /// A name resembles one of the kind and is none, as a phrase.
    Malformed(String),
}

impl<T> Kind<T> {
    /// Reads all names of this kind from `certificate`, in their order.
    ///
    /// # Errors
    /// [`NamesFault`]: the caller must not trust the certificate.
    pub(crate) fn read<'a>(
        &self,
        certificate: &'a CertificateDer<'a>,
    ) -> Result<(EndEntityCert<'a>, Vec<T>), NamesFault> {
        let der: &[u8] = certificate;
        let certificate =
            EndEntityCert::try_from(certificate).map_err(|_| NamesFault::Unreadable)?;
        let mut names = Vec::new();
        for name in certificate.valid_uri_names() {
            if (self.resembles)(name) {
                let malformed = || NamesFault::Malformed(format!("the URI {:?}", shown(name)));
                names.push((self.parse_exactly)(name).ok_or_else(malformed)?);
            }
        }
        // Counting in the raw bytes also covers names that are not valid UTF-8, and other fields such as the common name.
        if occurrences(der, self.letters) != names.len() {
            return Err(NamesFault::Malformed(self.elsewhere.to_owned()));
        }
        Ok((certificate, names))
    }
}

/// The beginning of a name, for an error.
fn shown(name: &str) -> String {
    name.chars().take(MAX_SHOWN).collect()
}

/// Counts the places in which the letters and digits of `bytes` are `what`.
pub(crate) fn occurrences(bytes: &[u8], what: &[u8]) -> usize {
    letters(bytes).windows(what.len()).filter(|part| *part == what).count()
}

/// Removes percent-encoding and everything but ASCII letters, made lower case, and digits. UTF-16 text
/// gives the same result as UTF-8.
pub(crate) fn letters(bytes: &[u8]) -> Vec<u8> {
    let mut text = bytes.to_vec();
    for _ in 0..MAX_ENCODINGS {
        text = percent_decoded(&text);
    }
    text.retain(u8::is_ascii_alphanumeric);
    text.make_ascii_lowercase();
    text
}

fn percent_decoded(mut bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let mut decoded = Vec::with_capacity(bytes.len());
    while let Some((first, rest)) = bytes.split_first() {
        let encoded = match (first, rest) {
            (b'%', [high, low, rest @ ..]) => {
                digit(*high).zip(digit(*low)).map(|(high, low)| (high << 4 | low, rest))
            }
            _ => None,
        };
        let (byte, rest) = encoded.unwrap_or((*first, rest));
        decoded.push(byte);
        bytes = rest;
    }
    decoded
}
