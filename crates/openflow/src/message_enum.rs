//! Macros that build the message and multipart enums of a version.

/// Defines `Message { xid, body }` of a version byte with a `Body` enum that has a variant per message
/// type.
///
/// With the parameter `V` it is a table of several versions, as in `tlv_enum!`.
macro_rules! message_enum {
    (
        $version:expr, $expected:expr $(, versions $v:ident)?;
        $(
            $(#[$meta:meta])*
            $variant:ident($body:ty) = $number:literal $(in $first:literal ..= $last:literal)?,
        )*
    ) => {
        /// A message of this version that encodes to the same bytes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Message<'a $(, const $v: u8)?> {
            /// The transaction id.
            pub xid: u32,
            /// The body.
            pub body: Body<'a $(, $v)?>,
        }

        /// The body of a message of this version.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize),
            serde(rename_all = "snake_case")
        )]
        #[non_exhaustive]
        pub enum Body<'a $(, const $v: u8)?> {
            $(
                $(#[$meta])*
                $variant(
                    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::field"))]
                    $body,
                ),
            )*
            /// A type that the specification does not define, kept unchanged.
            Unknown {
                /// The type.
                kind: u8,
                /// The bytes after the message header.
                #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::field"))]
                body: &'a [u8],
            },
        }

        impl $(<const $v: u8>)? Body<'_ $(, $v)?> {
            /// The message type's number.
            pub fn kind(&self) -> u8 {
                match self {
                    $( Self::$variant(_) => $number, )*
                    Self::Unknown { kind, .. } => *kind,
                }
            }
        }

        impl<'a $(, const $v: u8)?> Message<'a $(, $v)?> {
            /// Decodes a whole message of this version.
            ///
            /// # Errors
            /// [`DecodeError`](crate::DecodeError) if the bytes are not exactly one message of
            /// this version.
            pub fn decode(message: &'a [u8]) -> Result<Self, $crate::DecodeError> {
                if let Some(&found) = message.first().filter(|&&found| found != $version) {
                    return Err($crate::DecodeError::BadValue {
                        field: "header.version",
                        offset: 0,
                        found: found.into(),
                        expected: $expected,
                    });
                }
                let (header, mut from) = $crate::Header::split(message)?;
                let body = match header.kind {
                    $( $number $(if matches!(V, $first..=$last))? => Body::$variant(
                        $crate::wire::WireFormat::read(&mut from, stringify!($variant))?), )*
                    kind => Body::Unknown { kind, body: from.rest() },
                };
                from.finish("message")?;
                Ok(Self { xid: header.xid, body })
            }

            /// Encodes the message; returns its size.
            ///
            /// # Errors
            /// [`EncodeError::NoRoom`](crate::EncodeError::NoRoom) if `out` is too small,
            /// [`EncodeError::TooLong`](crate::EncodeError::TooLong) if no message can hold it.
            pub fn encode(&self, out: &mut [u8]) -> Result<usize, $crate::EncodeError> {
                let mut to = $crate::Writer::message(
                    out, $version, self.body.kind(), self.xid);
                match &self.body {
                    $( Body::$variant(body) => $crate::wire::WireFormat::write(body, &mut to), )*
                    Body::Unknown { body, .. } => to.bytes(body),
                }
                to.finish()
            }
        }
    };
}

/// Defines a multipart or statistics message with a variant per type.
///
/// Type, flags and `$pad` bytes of padding precede the content. With the parameter `V` it is a table of several
/// versions, as in `tlv_enum!`.
macro_rules! multipart_enum {
    (
        $(#[$struct_meta:meta])*
        pub struct $name:ident $(<$v:ident>)? = $label:literal, pad $pad:literal;
        $(#[$enum_meta:meta])*
        pub enum $body:ident {
            $(
                $(#[$meta:meta])*
                $variant:ident($type:ty) = $number:literal $(in $first:literal ..= $last:literal)?,
            )*
        }
    ) => {
        $(#[$struct_meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub struct $name<'a $(, const $v: u8)?> {
            /// Bit 0: more parts with the same xid follow.
            pub flags: u16,
            /// Padding.
            #[cfg_attr(feature = "serde", serde(
                serialize_with = "crate::json::field",
                skip_serializing_if = "crate::json::nothing"
            ))]
            pub pad: $crate::wire::Pad<$pad>,
            /// Content, by type.
            pub body: $body<'a $(, $v)?>,
        }

        $(#[$enum_meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize),
            serde(rename_all = "snake_case")
        )]
        #[non_exhaustive]
        pub enum $body<'a $(, const $v: u8)?> {
            $(
                $(#[$meta])*
                $variant(
                    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::field"))]
                    $type,
                ),
            )*
            /// A type that the specification does not define, kept unchanged.
            Unknown {
                /// The type.
                kind: u16,
                /// The body.
                #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::field"))]
                body: &'a [u8],
            },
        }

        #[cfg(feature = "serde")]
        impl<'a $(, const $v: u8)?> $crate::json::AsField for $name<'a $(, $v)?> {
            fn serialize_field<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }
        }

        impl $(<const $v: u8>)? $body<'_ $(, $v)?> {
            /// The type's number.
            pub fn kind(&self) -> u16 {
                match self {
                    $( Self::$variant(_) => $number, )*
                    Self::Unknown { kind, .. } => *kind,
                }
            }
        }

        impl<'a $(, const $v: u8)?> $crate::wire::WireFormat<'a> for $name<'a $(, $v)?> {
            fn read(
                from: &mut $crate::Reader<'a>,
                _field: &'static str,
            ) -> Result<Self, $crate::DecodeError> {
                let kind = from.u16(concat!($label, ".type"))?;
                let flags = from.u16(concat!($label, ".flags"))?;
                let pad = $crate::wire::WireFormat::read(from, concat!($label, ".pad"))?;
                let body = match kind {
                    $( $number $(if matches!(V, $first..=$last))? => $body::$variant(
                        $crate::wire::WireFormat::read(from, concat!($label, ".body"))?), )*
                    _ => $body::Unknown { kind, body: from.rest() },
                };
                Ok(Self { flags, pad, body })
            }
            fn write(&self, to: &mut $crate::Writer<'_>) {
                to.u16(self.body.kind());
                to.u16(self.flags);
                $crate::wire::WireFormat::write(&self.pad, to);
                match &self.body {
                    $( $body::$variant(body) => $crate::wire::WireFormat::write(body, to), )*
                    $body::Unknown { body, .. } => to.bytes(body),
                }
            }
        }
    };
}
pub(crate) use {message_enum, multipart_enum};
