//! Reads an app's name and version from its object, without loading it.
//!
//! An object exports `struct rosemary_app` (`rosemary_app.h`): two 32-bit numbers, then pointers to the name and the version. The
//! dynamic loader fills in the pointers, so the file has them as relocations.

use anyhow::{Context as _, bail};
use object::{
    File, Object as _, ObjectSegment as _, ObjectSymbol as _, ObjectSymbolTable as _,
    RelocationTarget,
};

/// The symbol of the structure.
const SYMBOL: &str = "rosemary_app";
/// Offset of the pointer to the name, in bytes.
const NAME: u64 = 8;
/// Offset of the pointer to the version, in bytes.
const VERSION: u64 = 16;
/// Maximum length of either text, in bytes.
const LONGEST: usize = 256;

/// The texts that an object states about its app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// The app's name.
    pub(super) name: String,
    /// The app's version.
    pub(super) version: String,
}

impl Descriptor {
    /// Reads the descriptor of the shared object `elf`.
    ///
    /// # Errors
    /// It is no 64-bit ELF file, has no such symbol, or its texts are outside of the file or too long.
    pub(super) fn read(elf: &[u8]) -> anyhow::Result<Self> {
        let file = File::parse(elf).context("it is not an ELF file")?;
        if !file.is_64() {
            bail!("it is for a 32-bit processor");
        }
        let Some(symbol) = file.dynamic_symbols().find(|it| it.name() == Ok(SYMBOL)) else {
            bail!("it exports no `{SYMBOL}`");
        };
        let text = |offset: u64, what: &str| {
            let pointer = symbol.address().checked_add(offset);
            let text = pointer.and_then(|pointer| text(&file, target(&file, pointer)?));
            text.with_context(|| format!("its `{SYMBOL}` has no readable {what}"))
        };
        Ok(Self { name: text(NAME, "name")?, version: text(VERSION, "version")? })
    }
}

/// Returns the address to which the pointer at the address `pointer` points once the object is loaded at address 0.
fn target(file: &File<'_>, pointer: u64) -> Option<u64> {
    let relocation = file.dynamic_relocations()?.find(|(at, _)| *at == pointer);
    let Some((_, relocation)) = relocation else {
        // A packed relocation (DT_RELR) adds to the value in the file.
        let bytes = data(file, pointer)?.first_chunk::<8>()?;
        let is_little = file.is_little_endian();
        return Some(if is_little {
            u64::from_le_bytes(*bytes)
        } else {
            u64::from_be_bytes(*bytes)
        });
    };
    let base = match relocation.target() {
        RelocationTarget::Symbol(index) => {
            file.dynamic_symbol_table()?.symbol_by_index(index).ok()?.address()
        }
        _ => 0,
    };
    base.checked_add_signed(relocation.addend())
}

/// Returns the text at an address, which a zero byte ends.
fn text(file: &File<'_>, address: u64) -> Option<String> {
    let data = data(file, address)?;
    let data = &data[..data.len().min(LONGEST)];
    let len = data.iter().position(|byte| *byte == 0)?;
    String::from_utf8(data[..len].to_vec()).ok()
}

/// Returns the bytes of the file from an address to the end of its segment.
fn data<'data>(file: &File<'data>, address: u64) -> Option<&'data [u8]> {
    file.segments().find_map(|segment| {
        let offset = usize::try_from(address.checked_sub(segment.address())?).ok()?;
        segment.data().ok()?.get(offset..).filter(|data| !data.is_empty())
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    const SOURCE: &str = r#"
        static const char version[] = "VERSION";
        struct app { unsigned abi, size; const char *name, *version; };
        const struct app NAME = { 1, sizeof(struct app), "APP", version };"#;

    /// Compiles the object of an app with this name and version.
    pub(crate) fn object(name: &str, version: &str) -> Vec<u8> {
        compile(&SOURCE.replace("APP", name).replace("VERSION", version), SYMBOL, "")
    }

    fn compiled(symbol: &str, more: &str) -> Vec<u8> {
        compile(&SOURCE.replace("APP", "my-app").replace("VERSION", "1.2.3"), symbol, more)
    }

    fn compile(source: &str, symbol: &str, more: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.c"), source.replace("NAME", symbol)).unwrap();
        let mut cc = Command::new("cc");
        let cc = cc.current_dir(dir.path()).args(["-shared", "-fPIC", "-o", "a.so", "a.c"]);
        assert!(cc.args(more.split_whitespace()).status().unwrap().success());
        fs::read(dir.path().join("a.so")).unwrap()
    }

    #[test]
    fn name_and_version_follow_relocations() {
        let expected = Descriptor { name: "my-app".into(), version: "1.2.3".into() };
        for more in
            ["", "-O2 -s", "-Wl,-z,pack-relative-relocs", "-Dversion=rosemary_version -Dstatic="]
        {
            let elf = compiled(SYMBOL, more);
            assert_eq!(Descriptor::read(&elf).unwrap(), expected, "{more}");
        }
    }

    #[test]
    fn damaged_objects_are_errors() {
        let error = Descriptor::read(b"\x7fELF object").unwrap_err().to_string();
        assert!(error.contains("not an ELF file"), "{error}");
        let error = Descriptor::read(&compiled("other", "")).unwrap_err().to_string();
        assert!(error.contains("exports no `rosemary_app`"), "{error}");
        let elf = compiled(SYMBOL, "");
        // Neither a missing end nor damaged bytes make the reader panic.
        for at in (0..elf.len()).step_by(7) {
            let _ = Descriptor::read(&elf[..at]);
            let mut damaged = elf.clone();
            damaged[at] ^= 0xff;
            let _ = Descriptor::read(&damaged);
        }
    }
}
