//! Messages to the log, by the names they had before.

pub use control::log::{
    LogFilter as Filter, LogLevel as Level, LogLine as Line, LogReply as Answer,
    LogRequest as Request, MAX_LINES as MOST_LINES, MAX_TEXT as LONGEST_TEXT, is_named as is_meant,
    program_on,
};
