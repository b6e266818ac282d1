type t = { code : string; message : string; data : Json.t }

let make ?(data = `Null) code message = { code; message; data }
let bad_request = "BAD_REQUEST"
let bad_parameters = "BAD_PARAMETERS"
let unknown_interface = "UNKNOWN_INTERFACE"
let unknown_version = "UNKNOWN_VERSION"
let unknown_method = "UNKNOWN_METHOD"
let unimplemented = "UNIMPLEMENTED"
let failed = "FAILED"
let result_too_large = "RESULT_TOO_LARGE"
let nobody_serves = "NOBODY_SERVES"

let declared code about data =
  match data with
  | `Null -> make code about
  | _ -> make ~data code (Printf.sprintf "%s: %s" about (Json.to_string data))

let to_json each : Json.t =
  `Assoc [ ("code", `String each.code); ("message", `String each.message); ("data", each.data) ]

let of_json json =
  let fields = Read.obj json in
  let text name = Option.fold ~none:"" ~some:(fun found -> Json.within name (fun () -> Read.string found)) in
  {
    code = Read.field fields "code" Read.string;
    message = text "message" (Json.find fields "message");
    data = Option.value (Json.find fields "data") ~default:`Null;
  }
