type 'f method_ = { name : string; about : string; run : 'f }
type 'f t = { name : string; version : string; methods : 'f method_ list }

let to_string each = Printf.sprintf "%s %s" each.name each.version

let numbers version =
  let number part =
    if part <> "" && String.for_all (fun each -> each >= '0' && each <= '9') part then int_of_string_opt part
    else None
  in
  let parts = List.map number (String.split_on_char '.' version) in
  if List.mem None parts then [] else List.filter_map Fun.id parts

let serves each version =
  version = "" || version = each.version
  ||
  match (numbers version, numbers each.version) with
  | (major :: _ as asked), (here :: _ as known) -> major = here && compare asked known <= 0
  | _ -> false

let help several : Json.t =
  let tell each (one : _ method_) =
    let text name said = (name, `String said) in
    let named = [ text "method" one.name; text "signature" one.name; text "interface" each.name ] in
    `Assoc (named @ [ text "version" each.version; text "text" one.about ])
  in
  `List (List.concat_map (fun each -> List.map (tell each) each.methods) several)

type 'f found = Help of Json.t | Method of 'f

let find several (call : Call.t) =
  let served = String.concat "; " (List.map to_string several) in
  let methods each = List.find_opt (fun (one : _ method_) -> one.name = call.name) each.methods in
  let one_name = List.sort_uniq compare (List.map (fun each -> each.name) several) in
  let named =
    if call.interface = "" then if List.length one_name = 1 then several else []
    else List.filter (fun each -> each.name = call.interface) several
  in
  let able = List.filter (fun each -> serves each call.version) named in
  if call.name = "help" && List.for_all (fun each -> methods each = None) several then Help (help several)
  else if named = [] then
    Errors.fail_with Fault.unknown_interface "no interface %S here: %s" call.interface served
  else if able = [] then
    Errors.fail_with Fault.unknown_version "no version %S of %S here: %s" call.version call.interface served
  else
    match List.find_map methods able with
    | Some one -> Method one.run
    | None ->
        let known = List.concat_map (fun each -> List.map (fun (one : _ method_) -> one.name) each.methods) able in
        let known = String.concat ", " (List.sort_uniq compare known) in
        Errors.fail_with Fault.unknown_method "no method %S here: %s" call.name known
