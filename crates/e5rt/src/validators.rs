//! The 55 exports of Apple's validators, all with one signature: a text (a netplist, MIL, or lines of weights), a chip, and memory for
//! the message. 0: accepted. [`crate::status::E5RT_COMPILE_FAILED`]: refused; the message has the code, the reason, Apple's text and the fix of
//! each refusal, one per line.
//!
//! Each calls the function that check, compile and load use. A macro generates them, and `cbindgen.toml` declares them, since they are alike.

#![allow(non_snake_case)]

use crate::handle::{Refusal, call, put_text, text};
use crate::status::E5RT_COMPILE_FAILED;
use anemone::validate::validate_text;
use std::ffi::c_char;

/// Calls an export; writes its message to `message`, zero-terminated and truncated to `bytes`.
///
/// # Safety
/// Texts are null or end with 0; `message` is null or holds at least `bytes`.
unsafe fn validate(
    export: &str,
    description: *const c_char,
    chip: *const c_char,
    message: *mut c_char,
    bytes: usize,
) -> i64 {
    let mut said = String::new();
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    let code = call(|| unsafe {
        let (description, chip) = (text(description)?, text(chip)?);
        let chip = anemone::reference::chip(chip).map_err(|d| Refusal::NotFound(d.render(false)))?;
        let refusals = validate_text(export, description, chip).map_err(|d| Refusal::NotFound(d.render(false)))?;
        for refusal in refusals {
            let apple = refusal.apple.map_or(String::new(), |text| format!("; apple: {text}"));
            let fix = if refusal.fix.is_empty() { String::new() } else { format!("; {}", refusal.fix) };
            said += &format!("{} {}{apple}{fix}\n", refusal.code, refusal.message);
        }
        Ok(())
    });
    // SAFETY: as the caller promises; without memory no message is written.
    let _ = unsafe { put_text(message, bytes, &said) };
    if code == 0 && !said.is_empty() { E5RT_COMPILE_FAILED } else { code }
}

macro_rules! exports {
    ( $( $name:ident )* ) => {
        /// Every export by name.
        pub const EXPORTS: &[&str] = &[ $( stringify!($name) ),* ];
        $(
            /// One of the 55 exports.
            ///
            /// # Safety
            /// Texts are null or end with 0; `message` is null or holds at least `message_bytes`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                description: *const c_char,
                chip: *const c_char,
                message: *mut c_char,
                message_bytes: usize,
            ) -> i64 {
                // SAFETY: as the caller promises.
                unsafe { validate(stringify!($name), description, chip, message, message_bytes) }
            }
        )*
    };
}

exports! {
    _ANECValidateAffineTransformLayer
    _ANECValidateArgMinMaxLayer
    _ANECValidateBatchToSpaceLayer
    _ANECValidateBroadcastLayer
    _ANECValidateChannelToSpaceLayer
    _ANECValidateConcatLayer
    _ANECValidateConvLayer
    _ANECValidateCropResizeLayer
    _ANECValidateCrossCorrelationLayer
    _ANECValidateCrossProductLayer
    _ANECValidateDropoutLayer
    _ANECValidateDynamicGOCLayer
    _ANECValidateDynamicSliceLayer
    _ANECValidateElementWiseLayer
    _ANECValidateFlattenLayer
    _ANECValidateGOCLayer
    _ANECValidateGatherLayer
    _ANECValidateGlobalArgMinMaxLayer
    _ANECValidateInputViewLayer
    _ANECValidateInstanceNormLayer
    _ANECValidateL2NormLayer
    _ANECValidateLRNLayer
    _ANECValidateLayerNormLayer
    _ANECValidateLinearLayer
    _ANECValidateMatrixMultLayer
    _ANECValidateMinMaxNormLayer
    _ANECValidateNMSLayer
    _ANECValidateNeuronLayer
    _ANECValidatePadLayer
    _ANECValidatePixelShuffleLayer
    _ANECValidatePixelUnshuffleLayer
    _ANECValidatePoolLayer
    _ANECValidateRandomLayer
    _ANECValidateReductionLayer
    _ANECValidateResampleLayer
    _ANECValidateReshapeLayer
    _ANECValidateResizeLayer
    _ANECValidateResizeAsLayer
    _ANECValidateRingBufferWriterLayer
    _ANECValidateSDPALayer
    _ANECValidateScaledElementWiseLayer
    _ANECValidateShapeLayer
    _ANECValidateSoftmaxLayer
    _ANECValidateSortLayer
    _ANECValidateSpaceToBatchLayer
    _ANECValidateSpaceToChannelLayer
    _ANECValidateTileLayer
    _ANECValidateTopKLayer
    _ANECValidateTransposeLayer
    _ANECValidateUnflattenLayer
    _ANECValidateNetworkCreate
    _ANECValidate
    _ANECValidateMPSModule
    _ANECValidateMPSModuleCreate
    _ANECValidateMutableProcedureInfo
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn all_exports_are_there_and_one_answers() {
        assert_eq!(EXPORTS.len(), 55);
        assert!(anemone::validate::all_exports().all(|name| EXPORTS.contains(&name.as_str())));
        let said = |text: &str| {
            let (text, chip) = (CString::new(text).unwrap(), CString::new("m1").unwrap());
            let mut message = [0 as c_char; 512];
            // SAFETY: texts end with 0, and the message has its size.
            let code = unsafe {
                _ANECValidateMutableProcedureInfo(text.as_ptr(), chip.as_ptr(), message.as_mut_ptr(), message.len())
            };
            // SAFETY: the call ends the message with 0.
            let text = unsafe { std::ffi::CStr::from_ptr(message.as_ptr()) };
            (code, text.to_string_lossy().into_owned())
        };
        assert_eq!(said("weight w=8\nexchange w=8\n").0, 0);
        let (code, message) = said("weight w=8\nexchange w=4\n");
        assert!(code == E5RT_COMPILE_FAILED && message.contains("E33") && message.contains("`w`"), "{message}");
    }
}
