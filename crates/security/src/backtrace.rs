//! Finds the functions that a crashed thread was calling, from its registers and a piece of its stack.
//!
//! The unwinding tables of the modules (`.eh_frame`) lead from each function to its caller. Where they end too early, the
//! stack is searched for addresses of code, and such frames are marked as guesses. The symbol table gives functions,
//! debugging information lines.
//!
//! All input may be hostile: an app in the kernel can forge the registers, the stack and the modules, and wrote its object.

use std::fs::File;
use std::os::fd::OwnedFd;

use addr2line::gimli::{Dwarf, EndianSlice, RunTimeEndian};
use addr2line::{Context, demangle_auto};
use control::incident::Frame;
use control::security::CrashedModule;
use object::read::{ReadCache, ReadRef};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

/// The most frames of a backtrace.
const MOST_FRAMES: usize = 32;

/// The most frames that are guessed.
const MOST_GUESSES: usize = 8;

/// The most bytes of a section that is read. Release builds have less than 64 MiB.
const LARGEST_SECTION: u64 = 256 << 20;

/// The most characters of a name.
const LONGEST_NAME: usize = 200;

/// Debugging information in memory.
type Slice<'d> = EndianSlice<'d, RunTimeEndian>;

/// A crashed thread and its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashedThread {
    /// The values of [`sys::crash::REGISTERS`], or nothing.
    pub registers: Vec<u64>,
    /// The stack from the stack pointer on.
    pub stack: Vec<u64>,
    /// The modules that the process had loaded.
    pub modules: Vec<CrashedModule>,
}

/// An address of code, and how it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CodeAddress {
    address: u64,
    /// Whether it follows a call, so that the calling instruction is before it.
    is_return: bool,
    is_guess: bool,
}

/// Returns the functions that `thread` was calling, the innermost first. `files` are those of the modules that have one.
pub fn backtrace(thread: &CrashedThread, files: Vec<OwnedFd>) -> Vec<Frame> {
    let mut files = files.into_iter();
    let files: Vec<Option<ReadCache<File>>> = thread
        .modules
        .iter()
        .map(|it| it.has_file.then(|| files.next()).flatten())
        .map(|file| Some(ReadCache::new(File::from(file?))))
        .collect();
    let objects: Vec<Option<object::File<'_, &ReadCache<File>>>> =
        files.iter().map(|file| object::File::parse(file.as_ref()?).ok()).collect();
    let addresses = unwound(thread, &objects);
    let mut frames: Vec<Frame> = addresses.iter().map(|it| frame(thread, *it)).collect();
    for (module, object) in thread.modules.iter().zip(&objects) {
        if let Some(object) = object {
            let of_module = addresses
                .iter()
                .zip(&mut frames)
                .filter(|(address, _)| module.range.contains(&address.address));
            name_functions(module, object, of_module);
        }
    }
    frames
}

/// The frame of an address without the names in the module's file.
fn frame(thread: &CrashedThread, CodeAddress { address, is_guess, .. }: CodeAddress) -> Frame {
    let module = thread.modules.iter().find(|it| it.range.contains(&address));
    Frame {
        address: format!("{address:#x}"),
        module: module.map(|it| it.name.clone()),
        offset: module.map(|it| format!("{:#x}", address.wrapping_sub(it.bias))),
        guess: is_guess,
        ..Frame::default()
    }
}

/// Adds functions and lines to the frames of a module.
fn name_functions<'f, 'd, R: ReadRef<'d>>(
    module: &CrashedModule,
    object: &object::File<'d, R>,
    frames: impl Iterator<Item = (&'f CodeAddress, &'f mut Frame)>,
) {
    let mut frames = frames.peekable();
    if frames.peek().is_none() {
        return;
    }
    let endian = if object.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = |id: addr2line::gimli::SectionId| {
        let bytes = section(object, id.name()).unwrap_or_default();
        Ok::<_, addr2line::gimli::Error>(Slice::new(bytes, endian))
    };
    let context = Dwarf::load(section).and_then(Context::from_dwarf).ok();
    for (code, frame) in frames {
        // The instruction after a call may belong to the next line, or function.
        let address = code.address.wrapping_sub(module.bias) - u64::from(code.is_return);
        // The symbol table has full names, and functions that were not inlined.
        let (function, source) =
            context.as_ref().map(|it| location(it, address)).unwrap_or_default();
        (frame.function, frame.source) = (symbol(object, address).or(function), source);
    }
}

/// The function and the line at an address, from debugging information.
fn location(context: &Context<Slice<'_>>, address: u64) -> (Option<String>, Option<String>) {
    let source = context.find_location(address).ok().flatten().and_then(|location| {
        let file = location.file?.rsplit('/').next()?;
        Some(shortened(&format!("{file}:{}", location.line?)))
    });
    let frames = context.find_frames(address).skip_all_loads();
    let function = frames.ok().and_then(|mut frames| {
        let function = frames.next().ok()??.function?;
        Some(shortened(&function.demangle().ok()?))
    });
    (function, source)
}

/// The function of the symbol table that contains the address.
fn symbol<'d, R: ReadRef<'d>>(object: &object::File<'d, R>, address: u64) -> Option<String> {
    let symbols = object.symbols().chain(object.dynamic_symbols());
    let contains = |start: u64, size: u64| start <= address && address - start < size;
    let mut found = symbols.filter(|it| it.is_definition() && contains(it.address(), it.size()));
    let name = found.next()?.name().ok()?.to_owned();
    Some(shortened(&demangle_auto(name.into(), None)))
}

/// The bytes of a section, unless it is missing, compressed or too large.
fn section<'d, R: ReadRef<'d>>(object: &object::File<'d, R>, name: &str) -> Option<&'d [u8]> {
    let section = object.section_by_name(name)?;
    (section.size() <= LARGEST_SECTION).then_some(())?;
    let range = section.compressed_file_range().ok()?;
    (range.format == object::CompressionFormat::None).then(|| section.data().ok())?
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_NAME).collect()
}

/// The addresses of code that the tables lead to, and guesses after them.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn unwound<'d, R: ReadRef<'d>>(
    thread: &CrashedThread,
    objects: &[Option<object::File<'d, R>>],
) -> Vec<CodeAddress> {
    use framehop::{CacheNative, FrameAddress, Unwinder as _, UnwinderNative};

    let [instruction, stack_pointer, ..] = *thread.registers else { return Vec::new() };
    let mut unwinder = UnwinderNative::<&[u8], _>::new();
    for (module, object) in thread.modules.iter().zip(objects) {
        if let Some(object) = object {
            unwinder.add_module(framehop::Module::new(
                module.name.clone(),
                module.range.clone(),
                module.bias,
                unwind_sections(object),
            ));
        }
    }
    // The last word that a frame used, so that guesses begin behind it.
    let mut used = 0;
    let mut read_stack = |address: u64| {
        let offset =
            address.checked_sub(stack_pointer).filter(|it| it.is_multiple_of(8)).ok_or(())?;
        let word = usize::try_from(offset / 8).map_err(|_| ())?;
        used = used.max(word);
        thread.stack.get(word).copied().ok_or(())
    };
    let mut cache = CacheNative::<_>::new();
    let registers = unwind_registers(&thread.registers);
    let mut frames = unwinder.iter_frames(instruction, registers, &mut cache, &mut read_stack);
    let (mut found, mut is_complete) = (Vec::new(), false);
    while found.len() < MOST_FRAMES {
        match frames.next() {
            Ok(Some(FrameAddress::InstructionPointer(address))) => {
                found.push(CodeAddress { address, is_return: false, is_guess: false });
            }
            Ok(Some(FrameAddress::ReturnAddress(address))) => {
                let address = address.get();
                found.push(CodeAddress { address, is_return: true, is_guess: false });
            }
            Ok(None) => {
                is_complete = true;
                break;
            }
            Err(_) => break,
        }
    }
    if !is_complete {
        let rest = thread.stack.get(used + 1..).unwrap_or_default().iter().copied();
        let is_code = |address: &u64| thread.modules.iter().any(|it| it.range.contains(address));
        let guesses = rest.filter(is_code).take(MOST_GUESSES.min(MOST_FRAMES - found.len()));
        found.extend(guesses.map(|address| CodeAddress {
            address,
            is_return: true,
            is_guess: true,
        }));
    }
    found
}

/// No registers are recorded on this kind of machine.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn unwound<'d, R: ReadRef<'d>>(
    _: &CrashedThread,
    _: &[Option<object::File<'d, R>>],
) -> Vec<CodeAddress> {
    Vec::new()
}

#[cfg(target_arch = "x86_64")]
fn unwind_registers(registers: &[u64]) -> framehop::x86_64::UnwindRegsX86_64 {
    let register = |index: usize| registers.get(index).copied().unwrap_or_default();
    framehop::x86_64::UnwindRegsX86_64::new(register(0), register(1), register(2))
}

#[cfg(target_arch = "aarch64")]
fn unwind_registers(registers: &[u64]) -> framehop::aarch64::UnwindRegsAarch64 {
    let register = |index: usize| registers.get(index).copied().unwrap_or_default();
    framehop::aarch64::UnwindRegsAarch64::new(register(3), register(1), register(2))
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn unwind_sections<'d, R: ReadRef<'d>>(
    object: &object::File<'d, R>,
) -> framehop::ExplicitModuleSectionInfo<&'d [u8]> {
    let bytes = |name| section(object, name);
    let range = |name| {
        let section = object.section_by_name(name)?;
        Some(section.address()..section.address().checked_add(section.size())?)
    };
    framehop::ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        text: bytes(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: bytes(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: bytes(".eh_frame_hdr"),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use sys::object::loaded_modules;

    use super::*;

    /// This test program as a crashed one.
    fn program() -> (CrashedModule, OwnedFd) {
        let found = loaded_modules().into_iter().find(|it| it.name.is_empty()).unwrap();
        let module = CrashedModule {
            name: "kernel".into(),
            range: found.range,
            bias: found.bias,
            has_file: true,
        };
        (module, File::open("/proc/self/exe").unwrap().into())
    }

    fn thread(modules: Vec<CrashedModule>, instruction: u64, stack: Vec<u64>) -> CrashedThread {
        let mut registers = vec![0x1000; sys::crash::REGISTERS.len()];
        registers[0] = instruction;
        CrashedThread { registers, stack, modules }
    }

    #[test]
    fn function_and_line_of_an_address_are_named() {
        let (module, file) = program();
        let here = function_and_line_of_an_address_are_named as fn() as *const () as u64;
        let frames = backtrace(&thread(vec![module], here, Vec::new()), vec![file]);
        let [frame] = &*frames else { panic!("{frames:?}") };
        assert_eq!((frame.module.as_deref(), frame.guess), (Some("kernel"), false));
        let function = frame.function.as_deref().unwrap();
        assert!(function.contains("function_and_line_of_an_address_are_named"), "{function}");
        assert!(frame.source.as_deref().unwrap().starts_with("backtrace.rs:"), "{frame:?}");
    }

    #[test]
    fn address_outside_of_modules_is_followed_by_guesses() {
        let (module, file) = program();
        let return_address = module.range.start + 0x100;
        let stack = vec![7, 8, 9, return_address, 1];
        let frames = backtrace(&thread(vec![module], 8, stack), vec![file]);
        assert_eq!((frames[0].address.as_str(), frames[0].module.as_deref()), ("0x8", None));
        let guess = frames.iter().find(|it| it.guess).unwrap();
        assert_eq!(guess.address, format!("{return_address:#x}"));
    }

    #[test]
    fn hostile_input_is_survived() {
        let (module, _) = program();
        let all = CrashedModule { range: 0..u64::MAX, bias: u64::MAX, ..module.clone() };
        let mut elf = std::fs::read("/proc/self/exe").unwrap();
        elf.truncate(1 << 20);
        for (number, byte) in elf.iter_mut().enumerate().skip(64) {
            *byte ^= u8::try_from(number % 7).unwrap();
        }
        for (bytes, value) in [(&b"junk"[..], 0), (&elf, 1), (&elf, u64::MAX), (&[], 1 << 63)] {
            let stack: Vec<u64> = (0..2048).map(|word| value.wrapping_mul(word)).collect();
            let file = sys::shm::sealed_copy("object", bytes).unwrap();
            let hostile = thread(vec![all.clone(), module.clone()], value, stack);
            let frames = backtrace(&hostile, vec![file]);
            assert!((1..=MOST_FRAMES).contains(&frames.len()), "{frames:?}");
        }
        let nothing = CrashedThread { registers: vec![], stack: vec![], modules: vec![all] };
        assert_eq!(backtrace(&nothing, vec![]), []);
    }
}
